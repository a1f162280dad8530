"""A fast fake Nextcloud in its own process: `python fake.py PORT`.

It supports just enough HTTP/1.1 to keep connections alive, because a complete server would cost more than the
responses do. `GET /-/count` returns the number of requests since the last `/-/reset`.
"""

import json
import sys
from collections import Counter
from http import HTTPStatus

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.load.fake_responses import Answer, Body, Nextcloud, piece

_HEAD_LIMIT = 65_536


class Fake:
    """Serves the fake responses and counts the requests."""

    def __init__(self) -> None:
        self._nextcloud = Nextcloud()
        self._asked: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()

    async def serve(self, stream: SocketStream) -> None:
        """Answer the requests of one connection until the client closes it."""
        reader = BufferedByteReceiveStream(stream)
        async with stream:
            try:
                while True:
                    head = await reader.receive_until(b"\r\n\r\n", _HEAD_LIMIT)
                    request, *lines = head.decode("latin-1").split("\r\n")
                    method, target, _ = request.split(" ", 2)
                    headers = {
                        name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
                    }
                    length = int(headers.get("content-length", "0"))
                    body = await reader.receive_exactly(length) if length else b""
                    await _send(stream, method, self._answer(method, target, headers, body))
            except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError):
                return

    def _answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        if target == "/-/reset":
            self._asked.clear()
            self._unknown.clear()
        if target.startswith("/-/"):
            counts = {"requests": self._asked.total(), "asked": self._asked, "unknown": self._unknown}
            return Answer(200, (("Content-Type", "application/json"),), json.dumps(counts).encode())
        name = f"{method} {target}"
        self._asked[name] += 1
        answer = self._nextcloud.answer(method, target, headers, body)
        if answer is None:
            self._unknown[name] += 1
            return Answer(404, (("Content-Type", "application/json"),), b"[]")
        return answer


async def _send(stream: SocketStream, method: str, answer: Answer) -> None:
    body = answer.body
    length = body.length if isinstance(body, Body) else len(body)
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in answer.headers]
    head = "\r\n".join((*lines, "", "")).encode()
    if method == "HEAD":
        await stream.send(head)
    elif isinstance(body, bytes):
        await stream.send(head + body)
    else:
        for offset, size in body.pieces():
            await stream.send(head + piece(offset, size))
            head = b""


async def main() -> None:
    """Listen on the port of the first argument; 0 takes a free one. Prints the port."""
    fake = Fake()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=int(sys.argv[1]))
    sys.stdout.write(f"{listener.extra(SocketAttribute.local_port)}\n")
    sys.stdout.flush()
    await listener.serve(fake.serve)


if __name__ == "__main__":
    anyio.run(main)
