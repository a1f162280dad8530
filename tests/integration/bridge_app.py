"""The bridge as chat clients start it, in front of servers over HTTP and stdio."""

import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.settings.environment import child_environment
from tests.integration.stdio_app import ROOT, Lines

_LINK = re.compile(r"^  (https?://\S+)$", re.MULTILINE)


class Chat(Lines):
    """A chat client that answers requests of the server, where it was told how."""

    def __init__(self, process: Process, *, modern: dict[str, Any] | None = None) -> None:
        super().__init__(process, modern=modern)
        self.replies: dict[str, Any] = {}
        self.asked: list[dict[str, Any]] = []

    async def take(self, message: dict[str, Any]) -> bool:
        """Answer a request of the server; return whether it was one."""
        if "method" not in message or "id" not in message:
            return False
        self.asked.append(message)
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": self.replies[message["method"]]}
        await self.write(answer)
        return True

    async def notice(self, method: str, count: int = 1) -> dict[str, Any]:
        """Wait for so many notifications of a method, and return the last one."""
        with anyio.fail_after(60):
            while len(found := [one for one in self.notices if one["method"] == method]) < count:
                await self.read()
        return found[count - 1]


@dataclass
class BridgeApp:
    """A running bridge: its chat client, and what it printed for the user."""

    chat: Chat
    log: Path

    @property
    def said(self) -> str:
        """What the bridge has printed to stderr."""
        return self.log.read_text(encoding="utf-8")

    @property
    def links(self) -> list[str]:
        """The links that the user was shown."""
        return _LINK.findall(self.said)

    async def link(self, number: int = 1) -> str:
        """Wait until the user was shown so many links; return the last one."""
        with anyio.fail_after(60):
            while len(self.links) < number:  # noqa: ASYNC110 - another process gives no event
                await anyio.sleep(0.02)
        return self.links[number - 1]

    async def consent(self, person: Person, number: int = 1) -> None:
        """Let a user follow a link that the bridge shows."""
        await person.allow(await self.link(number))


@asynccontextmanager
async def open_bridge(
    folder: Path,
    *arguments: str,
    capabilities: dict[str, Any] | None = None,
    modern: bool = False,
    version: str = "2025-06-18",
    show: str = "--show-link",
    opened: bool = True,
) -> AsyncGenerator[BridgeApp]:
    """Start a bridge and its chat client; both end with the block, and the bridge by itself."""
    log = folder.with_suffix(".bridge.log")
    command = [sys.executable, "-m", "nextcloud_mcp_server", "bridge", *arguments]
    with log.open("wb") as stderr:
        process = await anyio.open_process(
            [*command, show],
            stderr=stderr,
            env=child_environment(
                {
                    "PYTHONPATH": str(ROOT),
                    "XDG_CONFIG_HOME": str(folder),
                    "XDG_DATA_HOME": str(folder),
                    "NEXTCLOUD_MCP_CLIENT_TOKEN_STORE": "file",
                }
            ),
            cwd=folder.parent,
        )
    async with process:
        chat = Chat(process, modern=(capabilities or {}) if modern else None)
        try:
            if opened and not modern:
                await chat.open(capabilities or {}, version=version)
            yield BridgeApp(chat, log)
            if process.returncode is None:
                code, rest = await chat.leave()
                assert code == 0, log.read_text(encoding="utf-8")
                # Only protocol; whatever was under way is answered.
                assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
        finally:
            if process.returncode is None:
                process.kill()
