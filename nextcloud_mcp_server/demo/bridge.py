"""The journey through the bridge, with a chat client that knows neither OAuth nor elicitation."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import anyio
import httpx2
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from nextcloud_mcp_server.demo.answers import STEP_ERRORS, expect, fields, reason, result_of
from nextcloud_mcp_server.demo.narrator import Narrator
from nextcloud_mcp_server.demo.page_narrator import PageNarrator
from nextcloud_mcp_server.demo.servers import SingleUserServers, open_single_user_servers
from nextcloud_mcp_server.demo.wire_client import Message
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName
from nextcloud_mcp_server.settings.environment import child_environment

#: A version without any URL elicitation.
_VERSION = "2025-06-18"
_NOTES = "nc_notes_list_notes"
_LINK = re.compile(r"^  (https?://\S+)$", re.MULTILINE)
_AT_MOST_SECONDS = 120
_LONGEST_LINE = 10_000_000
_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class ChatClient:
    """A chat client of the simplest kind: lines to a program that it started."""

    process: Process
    #: What the program printed for the user.
    log: Path
    progress: list[str] = field(default_factory=list[str])
    _lines: BufferedByteReceiveStream = field(init=False)
    _last_id: int = 0

    def __post_init__(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - it was opened with pipes
        self._lines = BufferedByteReceiveStream(self.process.stdout)

    async def open(self) -> Message:
        """Perform the handshake, without a single capability."""
        info = {"name": "Simple chat client", "version": "1"}
        params: Message = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": info}
        result = result_of(await self.request("initialize", params))
        await self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    async def request(self, method: str, params: Message) -> Message:
        """Send one request and wait for its response."""
        self._last_id += 1
        await self._write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        while True:
            message: Message = json.loads(await self._lines.receive_until(b"\n", _LONGEST_LINE))
            if message.get("id") == self._last_id:
                return message
            if message.get("method") == "notifications/progress":
                self.progress.append(str(message["params"].get("message", "")))

    async def links(self) -> list[str]:
        """Return the links that the program has shown to the user."""
        return _LINK.findall(await anyio.Path(self.log).read_text(encoding="utf-8"))

    async def leave(self) -> int:
        """Close the program's input, and return its exit code."""
        assert self.process.stdin is not None  # noqa: S101 - it was opened with pipes
        await self.process.stdin.aclose()
        return await self.process.wait()

    async def _write(self, message: Message) -> None:
        assert self.process.stdin is not None  # noqa: S101 - it was opened with pipes
        await self.process.stdin.send(json.dumps(message).encode() + b"\n")


@dataclass(slots=True)
class BridgeJourney:
    """One run, with one chat client of one user."""

    servers: SingleUserServers
    narrator: Narrator
    client: ChatClient
    alice: Person
    pages: PageNarrator
    _links: int = 0

    async def run(self) -> None:
        """Run all steps."""
        await self._connect()
        await self._first_call()
        await self._read_file()
        await self._more_access()
        await self._leave()

    async def _connect(self) -> None:
        self.narrator.step("A chat client starts the bridge over stdio")
        self.narrator.say(f"It speaks MCP {_VERSION}, and declares nothing: no elicitation, no sign-in.")
        hello = await self.client.open()
        tools = result_of(await self.client.request("tools/list", {}))["tools"]
        expect(_NOTES in {tool["name"] for tool in tools}, f"the tools lack {_NOTES}")
        name = hello["serverInfo"]["name"]
        self.narrator.done(f"Behind the bridge it sees the server itself: {name}, with {len(tools)} tools.")

    async def _first_call(self) -> None:
        self.narrator.step("The assistant wants Alice's notes, and Alice allows it meanwhile")
        result = await self._slow_call(_NOTES, {}, ("notes:read", "files:read"))
        for note in fields(result)["notes"]:
            self.narrator.item(str(note["title"]))
        self.narrator.done("For the chat client this was one slow call.")

    async def _read_file(self) -> None:
        self.narrator.step("The assistant reads a file")
        path = "Documents/Travel plan.md"
        self.narrator.say(f"→ nc_files_read_file(path={path!r})")
        answer = await self.client.request(
            "tools/call", {"name": "nc_files_read_file", "arguments": {"path": path}}
        )
        expect("Lisbon" in str(fields(result_of(answer))["content"]), "the file does not hold what it should")
        expect(len(await self.client.links()) == self._links, "the bridge asked for what Alice had allowed")
        self.narrator.done("No further question: Alice had allowed that too.")

    async def _more_access(self) -> None:
        self.narrator.step("A call that needs more waits in the same way")
        note = {"title": "From the bridge", "content": "One slow call."}
        await self._slow_call("nc_notes_create_note", note, ("notes:write",))
        self.narrator.done("Alice allowed just that, and the note is there.")

    async def _leave(self) -> None:
        self.narrator.step("The chat client closes the bridge")
        expect(await self.client.leave() == 0, "the bridge did not end well")
        self.narrator.done("It ended by itself; nothing of it is left.")

    async def _slow_call(self, tool: str, arguments: Message, only: tuple[str, ...]) -> Message:
        """Call a tool while Alice follows the link that the bridge shows."""
        self.narrator.say(f"→ {tool}(…)")
        self.client.progress.clear()
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": tool}}
        since, answers = anyio.current_time(), list[Message]()
        async with anyio.create_task_group() as group:
            group.start_soon(self._consent, only)
            answers.append(await self.client.request("tools/call", params))
        expect(bool(self.client.progress), "the chat client heard nothing while it waited")
        self.narrator.say(f"← notifications/progress: “{self.client.progress[0]}”")
        self.narrator.say(f"← The answer came after {anyio.current_time() - since:.1f} s.")
        expect(len(await self.client.links()) == self._links, "the user was asked more than once")
        return result_of(answers[0])

    async def _consent(self, only: tuple[str, ...]) -> None:
        self._links += 1
        while len(links := await self.client.links()) < self._links:  # noqa: ASYNC110 - another process gives no event
            await anyio.sleep(_LOOK_SECONDS)
        self.narrator.say("The bridge shows Alice the page; on her computer it opens in her browser:")
        self.narrator.link(links[-1])
        self.pages.begin(only)
        page = await self.alice.allow(links[-1], only=only)
        expect(page.title == "Connected", f"the consent request ended on the page “{page.title}”")


async def play_bridge(out: TextIO, *, plain: bool = False, version: ProfileName = USUAL) -> None:
    """Run the journey through the bridge.

    Raises:
      NotAsPromised: A step did not have the result it announces.
    """
    narrator = Narrator(out, live=out.isatty() and not plain)
    narrator.headline("Nextcloud for assistants: the journey through the bridge")
    try:
        with anyio.fail_after(_AT_MOST_SECONDS):
            await _play(narrator, version)
    except STEP_ERRORS as error:
        raise NotAsPromised(
            f"Step {narrator.steps} ({narrator.step_title}) did not turn out as promised: {reason(error)}"
        ) from error
    narrator.headline(f"\nAll {narrator.steps} steps turned out as promised.")


async def _play(narrator: Narrator, version: ProfileName) -> None:
    narrator.step("A sandbox Nextcloud and the server start on this computer")
    async with open_single_user_servers(narrator, version) as servers:
        narrator.item(f"Nextcloud, with the notes and files of Alice: {servers.nextcloud_url}")
        narrator.item(f"The server: {servers.mcp_url}")
        async with _bridge(servers) as client, httpx2.AsyncClient(timeout=_AT_MOST_SECONDS) as browser:
            pages = PageNarrator(narrator, {servers.nextcloud_url: "Nextcloud's"})
            alice = Person("alice", "alice", browser=browser, show=pages)
            await BridgeJourney(servers, narrator, client, alice, pages).run()


@asynccontextmanager
async def _bridge(servers: SingleUserServers) -> AsyncGenerator[ChatClient]:
    """Run the bridge as chat clients do; it ends with the block."""
    command = [sys.executable, "-m", "nextcloud_mcp_server", "bridge", servers.mcp_url, "--show-link"]
    with tempfile.TemporaryDirectory(prefix="nextcloud-mcp-demo-") as folder:
        log = Path(folder) / "bridge.log"
        with log.open("wb") as output:
            process = await anyio.open_process(
                [*command, f"--header=Authorization=Bearer {servers.secret}"],
                stdin=subprocess.PIPE,
                stderr=output,
                env=child_environment({"XDG_CONFIG_HOME": folder}),
                cwd=folder,
            )
        async with process:
            try:
                yield ChatClient(process, log)
            finally:
                if process.returncode is None:
                    process.kill()
