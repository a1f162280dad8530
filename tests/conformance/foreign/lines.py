"""The protocol of the scripts that drive third-party clients: one JSON object per line.

Runs in the environment of each client, so it uses only the standard library. The plan is the only argument: `server`
(a URL or a command), `headers`, `env`. The commands are `tools`, `call` (`tool`, `arguments`), `read` (`uri`) and
`prompt` (`name`, `arguments`); each gets one line with `event: answer`. Between them comes a line with `event: asked`
for every page that the client is asked to show.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class Player(Protocol):
    """One client, connected to the server."""

    async def tools(self) -> list[str]:
        """List the names of the tools."""
        ...

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; return `text` and `error`, and `code` and `url` for a protocol error."""
        ...

    async def read(self, uri: str) -> str:
        """Read a resource."""
        ...

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Get a prompt."""
        ...


def say(**fields: object) -> None:
    """Write an event for the test."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def text_of(content: object) -> str:
    """Join the texts of content blocks, whatever their class."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return str(content.get("text", ""))
    if isinstance(content, list | tuple):
        return "\n".join(text_of(one) for one in content)
    return str(getattr(content, "text", ""))


def refused(error: Exception) -> dict[str, Any]:
    """Return the parts of a protocol error, which the SDKs name alike."""
    held = getattr(error, "error", error)
    data = getattr(held, "data", None) or {}
    asked = data.get("elicitations") if isinstance(data, dict) else None
    url = asked[0]["url"] if asked else None
    return {
        "text": getattr(held, "message", None) or str(error),
        "error": True,
        "code": getattr(held, "code", None),
        "url": url,
    }


async def _obey(player: Player, order: dict[str, Any]) -> dict[str, Any]:
    do = order["do"]
    if do == "tools":
        return {"names": await player.tools()}
    if do == "call":
        return await player.call(order["tool"], order["arguments"])
    try:
        if do == "read":
            return {"text": await player.read(order["uri"]), "error": False}
        return {"text": await player.prompt(order["name"], order["arguments"]), "error": False}
    except Exception as error:  # noqa: BLE001 - what a client makes of an error is what the test wants to see
        return refused(error)


async def _play(opened: Callable[[dict[str, Any]], AbstractAsyncContextManager[Player]]) -> None:
    plan = json.loads(sys.argv[1])
    async with opened(plan) as player:
        while line := await asyncio.to_thread(sys.stdin.readline):
            say(event="answer", **await _obey(player, json.loads(line)))


def play(opened: Callable[[dict[str, Any]], AbstractAsyncContextManager[Player]]) -> None:
    """Connect, then run commands until there are no more."""
    asyncio.run(_play(opened))


Opened = AsyncGenerator[Player]
