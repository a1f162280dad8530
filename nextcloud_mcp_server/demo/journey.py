"""The single-user journey, step by step. Each step checks its result."""

import json
import webbrowser
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO

import anyio
import httpx2
from anyio import to_thread

from nextcloud_mcp_server.commands.console import program
from nextcloud_mcp_server.demo.answers import STEP_ERRORS, expect, fields, reason, result_of, words
from nextcloud_mcp_server.demo.dialect import DIALECTS, Ask, Dialect, Name
from nextcloud_mcp_server.demo.narrator import Narrator
from nextcloud_mcp_server.demo.page_narrator import PageNarrator
from nextcloud_mcp_server.demo.servers import SingleUserServers, open_single_user_servers
from nextcloud_mcp_server.demo.wire_client import Message, WireClient
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName

_NOTES = "nc_notes_list_notes"
_FILE = "Documents/Travel plan.md"
_BEFORE, _AFTER = "- [ ] oat milk", "- [x] oat milk"

_AT_MOST_SECONDS = 120
_MANUAL_SECONDS = 1800
_CALL_SECONDS = 330


@dataclass(slots=True)
class Journey:
    """One run, with one client of one user."""

    servers: SingleUserServers
    narrator: Narrator
    dialect: Dialect
    client: WireClient
    alice: Person
    pages: PageNarrator
    open_page: Callable[[str], object] | None
    consents: int = 0
    notes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def run(self) -> None:
        """Run all steps."""
        await self._list_tools()
        await self._first_call()
        await self._read_file()
        stale = await self._edit_note()
        await self._refuse_stale(*stale)
        await self._delete_note("Pancakes")
        await self._revoke()
        await self._ask_again()

    async def connect(self) -> None:
        """Initialize the connection of client and server."""
        self.narrator.step("A client connects and lists the tools")
        self.narrator.say(f"It speaks {self.dialect.says}.")
        await self.client.open()

    async def _list_tools(self) -> None:
        tools = (await self.client.request("tools/list", {}))["result"]["tools"]
        names = {tool["name"] for tool in tools}
        expect(_NOTES in names, f"the tools lack {_NOTES}")
        size = len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode()) / 1000
        kinds = Counter(_kind(name) for name in names)
        counted = ", ".join(f"{count} for {kind}" for kind, count in sorted(kinds.items()))
        self.narrator.done(f"{len(names)} tools in {size:.0f} kB: {counted}.")

    async def _first_call(self) -> None:
        self.narrator.step("The assistant wants Alice's notes")
        self.narrator.say(f"→ {_NOTES}()")
        self.narrator.say("The server has no password for her Nextcloud, so it asks:")
        answer = await self._send(_NOTES, {})
        self.dialect.show(f"← {self.dialect.asked_by}", answer)
        ask = self.dialect.asks(answer)
        if ask is None:
            raise NotAsPromised("the server did not ask for consent.")
        self.narrator.step("Alice allows it in her browser, while the call waits")
        result = await self._consent_request(ask, _NOTES, {}, only=("notes:read", "files:read"))
        self.dialect.brief = True
        self.narrator.step("The call that waited goes through")
        self.notes = fields(result)["notes"]
        for note in self.notes:
            folder = f"   ({note['category']})" if note["category"] else ""
            self.narrator.item(f"{note['title']}{folder}")
        expect(len(self.notes) == 5, "these are not Alice's notes")  # noqa: PLR2004 - what the sandbox holds
        self.narrator.done("Her notes, with one consent and no password.")

    async def _read_file(self) -> None:
        self.narrator.step("The assistant reads a file")
        result = await self._call("nc_files_read_file", {"path": _FILE})
        content = str(fields(result)["content"])
        self.narrator.quote(content)
        expect("Lisbon" in content, "the file does not hold what it should")
        expect(
            self.consents == 1 or self.open_page is not None,
            "the server asked for what Alice had allowed",
        )
        self.narrator.done(
            "No further question: Alice had let it read her files too." if self.consents == 1 else "Read."
        )

    async def _edit_note(self) -> tuple[int, str]:
        self.narrator.step("The assistant changes a note, by its etag")
        note_id = int(self._note("Shopping list")["id"])
        etag = str(fields(await self._call("nc_notes_get_note", {"note_id": note_id}))["etag"])
        edit = {"note_id": note_id, "old_text": _BEFORE, "new_text": _AFTER, "etag": etag}
        written = fields(await self._call("nc_notes_edit_note", edit, only=("notes:write",)))
        text = str(fields(await self._call("nc_notes_get_note", {"note_id": note_id}))["content"])
        self.narrator.say("The note now reads:")
        self.narrator.quote(text)
        expect(_AFTER in text, "the change is not in the note")
        expect(written["etag"] != etag, "the note kept its etag")
        self.narrator.done("Oat milk is ticked off; the note's etag changed with it.")
        return note_id, etag

    async def _refuse_stale(self, note_id: int, etag: str) -> None:
        self.narrator.step("A change that is based on the old text is refused")
        edit = {"note_id": note_id, "old_text": "tomatoes", "new_text": "potatoes", "etag": etag}
        result = await self._call("nc_notes_edit_note", edit, may_fail=True)
        expect(bool(result.get("isError")), "the stale change was not refused")
        self.narrator.say(f"← “{words(result)}”")
        text = str(fields(await self._call("nc_notes_get_note", {"note_id": note_id}))["content"])
        expect("tomatoes" in text and _AFTER in text, "the stale change went into the note")
        self.narrator.done("Nothing was overwritten.")

    async def _delete_note(self, title: str) -> None:
        self.narrator.step("A note is deleted, which can be undone")
        note_id = self._note(title)["id"]
        deleted = fields(await self._call("nc_notes_delete_note", {"note_id": note_id}))
        self.narrator.say(f"← “{deleted['undo']}”")
        trash = fields(await self._call("nc_files_list_trash", {}))["items"]
        found = [item["path"] for item in trash if title in item["path"]]
        expect(bool(found), "the note is not in the trash")
        self.narrator.done(f"In the trash: {found[0]}")

    async def _revoke(self) -> None:
        self.narrator.step("Alice ends the access")
        expect(len(self.servers.sandbox.state.app_passwords) == 1, "Nextcloud does not list one access")
        message = str(fields(await self._call("revoke_nextcloud_access", {}))["message"])
        self.narrator.say(f"← “{message}”")
        expect(not self.servers.sandbox.state.app_passwords, "Nextcloud still lists the access")
        self.narrator.done("Nextcloud's own list of connected apps is empty again.")

    async def _ask_again(self) -> None:
        self.narrator.step("The next call asks again")
        self.narrator.say(f"→ {_NOTES}()")
        ask = self.dialect.asks(await self._send(_NOTES, {}))
        if ask is None or not ask.url:
            raise NotAsPromised("the server did not ask again.")
        self.narrator.quote(ask.url)
        self.narrator.done("A new link, for a new consent.")

    async def _call(
        self, tool: str, arguments: Message, *, only: tuple[str, ...] = (), may_fail: bool = False
    ) -> Message:
        """Call a tool and go through consent where the server asks for it; return the result."""
        self.narrator.say(f"→ {tool}({', '.join(_shown(*one) for one in arguments.items())})")
        answer = await self._send(tool, arguments)
        if (ask := self.dialect.asks(answer)) is not None:
            self.narrator.say(
                "← Alice has not allowed that yet. The server asks for just that, in the same way."
            )
            return await self._consent_request(ask, tool, arguments, only=only)
        return result_of(answer, may_fail=may_fail)

    async def _send(self, tool: str, arguments: Message, more: Message | None = None) -> Message:
        params = {"name": tool, "arguments": arguments, **(more or {})}
        return await self.client.request("tools/call", params)

    async def _consent_request(
        self, ask: Ask, tool: str, arguments: Message, *, only: tuple[str, ...]
    ) -> Message:
        async def again(more: Message) -> Message:
            return await self._send(tool, arguments, more)

        self.consents += 1
        answer: Message = {}
        async with anyio.create_task_group() as group:
            if self.open_page is None:
                group.start_soon(self._walk, ask.url, only)
            else:
                self._send_person(ask.url)
                group.start_soon(to_thread.run_sync, self.open_page, ask.url)
            answer = await self.dialect.finish(self.client, ask, again)
        if (more := self.dialect.asks(answer)) is None:
            return result_of(answer)
        expect(self.open_page is not None, "the server asked for what Alice had allowed")
        self.narrator.say("← What the call needs was not allowed, so the server asks once more.")
        return await self._consent_request(more, tool, arguments, only=only)

    def _note(self, title: str) -> dict[str, Any]:
        return next(note for note in self.notes if note["title"] == title)

    def _send_person(self, url: str) -> None:
        self.narrator.say("Your turn. Open this page (your browser may do so by itself):")
        self.narrator.link(url)
        self.narrator.say("Nextcloud asks you to sign in: sign in as alice with password alice.")

    async def _walk(self, url: str, only: tuple[str, ...]) -> None:
        self.pages.begin(only)
        page = await self.alice.allow(url, only=only)
        expect(page.title == "Connected", f"the consent request ended on the page “{page.title}”")


async def play(
    dialect: Name,
    out: TextIO,
    *,
    manual: bool = False,
    plain: bool = False,
    version: ProfileName = USUAL,
    open_page: Callable[[str], object] = webbrowser.open,
) -> None:
    """Run the single-user journey in one wire form.

    Raises:
      NotAsPromised: A step did not have the result it announces.
    """
    narrator = Narrator(out, live=out.isatty() and not plain)
    since = anyio.current_time()
    narrator.headline(f"Nextcloud for assistants: the whole journey, in the form “{dialect}”")
    try:
        with anyio.fail_after(_MANUAL_SECONDS if manual else _AT_MOST_SECONDS):
            shown = open_page if manual else None
            await _play(DIALECTS[dialect](narrator), narrator, shown, version)
    except STEP_ERRORS as error:
        raise NotAsPromised(
            f"Step {narrator.steps} ({narrator.step_title}) did not turn out as promised: {reason(error)}"
        ) from error
    narrator.headline(
        f"\nAll {narrator.steps} steps turned out as promised, in {anyio.current_time() - since:.0f} s."
    )
    narrator.say("Nothing is left behind. With your own Nextcloud, type:")
    narrator.say(f"{program()} connect --nextcloud https://cloud.example.org")


async def _play(
    dialect: Dialect, narrator: Narrator, open_page: Callable[[str], object] | None, version: ProfileName
) -> None:
    narrator.step("A sandbox Nextcloud and the server start on this computer")
    async with open_single_user_servers(narrator, version) as servers:
        narrator.item(f"Nextcloud, with the notes and files of Alice: {servers.nextcloud_url}")
        narrator.item(f"The server, a process of its own ({servers.process_id}): {servers.mcp_url}")
        headers = {"Authorization": f"Bearer {servers.secret}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=_CALL_SECONDS) as http,
            httpx2.AsyncClient(timeout=_CALL_SECONDS) as browser,
            anyio.create_task_group() as group,
        ):
            pages = PageNarrator(narrator, {servers.nextcloud_url: "Nextcloud's"})
            alice = Person("alice", "alice", browser=browser, show=pages)
            client = dialect.client(http, servers.mcp_url)
            journey = Journey(servers, narrator, dialect, client, alice, pages, open_page)
            await journey.connect()
            await group.start(dialect.attend, client)
            await journey.run()
            group.cancel_scope.cancel()


def _shown(name: str, value: object) -> str:
    # An etag of forty digits has no meaning for a reader.
    text = json.dumps(
        f"{value[:8]}…" if name == "etag" and isinstance(value, str) else value, ensure_ascii=False
    )
    return f"{name}={text}"


def _kind(tool: str) -> str:
    return next((kind for kind in ("notes", "files") if tool.startswith(f"nc_{kind}_")), "the connection")
