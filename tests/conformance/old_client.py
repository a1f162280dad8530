"""Starts the script of the client with SDK 1.30, in its own environment."""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

LIST = "nc_notes_list_notes"
SCRIPT = Path(__file__).parent / "sdk_1_30" / "client.py"
LONGEST_LINE = 1_000_000


async def played(
    python: Path, plan: Mapping[str, object], *, authorize: Callable[[str], Awaitable[str]] | None = None
) -> AsyncGenerator[dict[str, Any]]:
    """Start the client; each line it prints is one event. `authorize` completes an authorization request."""
    nothing: dict[str, str] = {}
    given: dict[str, object] = {
        "headers": nothing,
        "env": nothing,
        "elicitation": True,
        "tool": LIST,
        "arguments": nothing,
        "oauth": None,
        "rounds": 5,
    } | dict(plan)
    command = [str(python), str(SCRIPT), json.dumps(given)]
    # Without this project's modules, which would shadow its `mcp`.
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with anyio.fail_after(120):
        async with await anyio.open_process(command, env=plain, stderr=None) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            lines = BufferedByteReceiveStream(process.stdout)
            while True:
                try:
                    event = json.loads(await lines.receive_until(b"\n", LONGEST_LINE))
                except anyio.IncompleteRead:
                    break
                if event["event"] == "authorize" and authorize is not None:
                    await process.stdin.send(f"{await authorize(event['url'])}\n".encode())
                yield event


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind]
