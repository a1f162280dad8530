"""A client that sends as much as it can.

Usage: `python -m tests.load.attacker ENDPOINT SECONDS`, its token on stdin.
"""

import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import httpx2

from tests.load_cluster import LIST

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "attacker", "version": "1"},
    },
}
CALL: dict[str, object] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": LIST, "arguments": {}},
}
#: Just below the maximum size of a body.
LARGE = 4_190_000
SMALL_THINGS = (
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":[' + b"{}," * 1_390_000 + b"{}]}}}"
)
MOST_THINGS = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":[' + b"{}," * 9_900 + b"{}]}}}"
LONG_TEXT = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {"x": "a, [b] " * (LARGE // 7)}}}
).encode()


class Attacker:
    """Sends requests in many tasks, each as soon as the last was answered."""

    def __init__(self, http: httpx2.AsyncClient, endpoint: str) -> None:
        self._http = http
        self._endpoint = endpoint
        self.answers = Counter[str]()

    async def open(self) -> str:
        """Open a session."""
        answer = await self._http.post(self._endpoint, json=INITIALIZE)
        return answer.headers.get("mcp-session-id", "")

    async def attack(self, session: str) -> None:
        """Run everything concurrently until cancelled."""
        ways: list[tuple[int, str, Callable[[], Awaitable[int]]]] = [
            (32, "sessions", lambda: self._post("", json.dumps(INITIALIZE).encode())),
            (64, "calls", lambda: self._post(session, json.dumps(CALL).encode())),
            (4, "bodies of small things", lambda: self._post(session, SMALL_THINGS)),
            (8, "bodies of 20,000 things", lambda: self._post(session, MOST_THINGS)),
            (4, "long texts", lambda: self._post(session, LONG_TEXT)),
            (4, "slow bodies", lambda: self._post(session, _slow())),
            (32, "streams", self._listen),
        ]
        async with anyio.create_task_group() as group:
            for tasks, name, send in ways:
                for _ in range(tasks):
                    group.start_soon(self._repeat, name, send)

    async def _repeat(self, name: str, send: Callable[[], Awaitable[int]]) -> None:
        while True:
            try:
                status = str(await send())
            except httpx2.HTTPError as error:
                status = type(error).__name__
            self.answers[f"{name}: {status}"] += 1

    async def _post(self, session: str, body: bytes | AsyncIterator[bytes]) -> int:
        headers = {"content-type": "application/json"} | ({"mcp-session-id": session} if session else {})
        return (await self._http.post(self._endpoint, content=body, headers=headers)).status_code

    async def _listen(self) -> int:
        session = await self.open()
        headers = {"mcp-session-id": session}
        async with self._http.stream("GET", self._endpoint, headers=headers) as answer:
            async for _ in answer.aiter_raw():
                pass
            return answer.status_code


async def _slow() -> AsyncIterator[bytes]:
    while True:
        yield b" "
        await anyio.sleep(1)


async def main() -> None:
    """Attack, and print the responses."""
    endpoint, seconds, token = sys.argv[1], float(sys.argv[2]), sys.stdin.readline().strip()
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(headers=headers, timeout=120, limits=limits) as http:
        attacker = Attacker(http, endpoint)
        session = await attacker.open()
        with anyio.move_on_after(seconds):
            await attacker.attack(session)
    sys.stdout.write(json.dumps(attacker.answers))


if __name__ == "__main__":
    anyio.run(main)
