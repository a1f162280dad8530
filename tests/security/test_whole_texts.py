"""Attack: texts of megabytes in a user's Nextcloud, which strangers may send; other users are served meanwhile."""

import sys
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any, cast

import anyio
import httpx2
import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.mail.tools import mail
from nextcloud_mcp_server.apps.notes import client as notes_client
from nextcloud_mcp_server.apps.notes.resources import Notes
from nextcloud_mcp_server.apps.tables import tools as tables_tools
from nextcloud_mcp_server.apps.tables.client import Row, TablesClient
from nextcloud_mcp_server.apps.talk.client import Conversation
from nextcloud_mcp_server.apps.talk.tools import ConversationPage
from nextcloud_mcp_server.auth.principal import personal_caller
from nextcloud_mcp_server.documents import process
from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.output import MAX_TEXT_BYTES
from nextcloud_mcp_server.documents.process import Extract
from nextcloud_mcp_server.documents.worker import SMALL_BYTES
from nextcloud_mcp_server.formats import character_references, passage
from nextcloud_mcp_server.nextcloud import memory_permit, pace
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.resources.kind import Reader
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.mail.store import MailStore
from nextcloud_mcp_server.sandbox.apps.notes.store import Changes, NoteStore
from nextcloud_mcp_server.sandbox.apps.tables.store import TableStore
from nextcloud_mcp_server.tools import answer, pagination, untrusted_text
from nextcloud_mcp_server.tools.documents import AT_ONCE, Documents
from nextcloud_mcp_server.tools.progress import Progress
from nextcloud_mcp_server.tools.registry import load
from tests.dav_fakes import ProgressLog, account_in, account_through, call, call_with, nothing_read
from tests.document_files import read_here
from tests.every_tool import SPECS, tampered, usual
from tests.integration.personal_app import Asked, open_personal_app
from tests.permits import is_held, watch_notes

BOB = ("Bob", "bob@example.test")
#: The number of the current call.
_CALL = ContextVar[int]("call")


def counted(monkeypatch: pytest.MonkeyPatch, kind: type, method: str) -> Callable[[], int]:
    """Return how many calls of a method there were at once, at most."""
    running = most = 0
    real = getattr(kind, method)

    async def watched(*given: object, **named: object) -> object:
        nonlocal running, most
        running += 1
        most = max(most, running)
        # Others that may begin, do.
        await anyio.sleep(0.005)
        try:
            return await real(*given, **named)
        finally:
            running -= 1

    monkeypatch.setattr(kind, method, watched)
    return lambda: most


async def at_once(use: Callable[[], Awaitable[object]]) -> None:
    async def once() -> None:
        await use()

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(once)


async def unheard(done: int, total: int) -> None:
    del done, total


async def held(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def reading(
    kind: Kind, pieces: AsyncIterable[bytes], *, report: Callable[[int, int], Awaitable[None]]
) -> Extract:
    """Count the bytes of a document."""
    del kind, report
    size = sum([len(piece) async for piece in pieces])
    return Extract(f"read {size}".encode(), "ok")


class Holders:
    """The calls that hold a response which needs the permit; here each one with a body does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.most = set[int](), 0
        self.seen = set[int]()
        monkeypatch.setattr(memory_permit, "LARGE_BYTES", 0)
        request = NextcloudHttp.request

        async def watched(http: NextcloudHttp, *given: object, **named: object) -> httpx2.Response:
            response = await cast("Any", request)(http, *given, **named)
            if response.content:
                self.now.add(_CALL.get())
                self.seen.add(_CALL.get())
                self.most = max(self.most, len(self.now))
                # Others that may begin, do.
                await anyio.sleep(0.001)
            return response

        monkeypatch.setattr(NextcloudHttp, "request", watched)

    async def during(self, number: int, use: Callable[[], Awaitable[object]]) -> None:
        """Use something as one call; its errors do not matter."""
        _CALL.set(number)
        with suppress(errors.NextcloudMcpError):
            async with memory_permit.of_call():
                try:
                    await use()
                finally:
                    self.now.discard(number)


async def test_of_one_users_calls_one_at_a_time_holds_a_large_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """16 reads at once of a note of 30 MB took 300 MB, and 8 lists of articles of one megabyte 270 MB."""
    _, account = tampered(Sandbox.demo())
    arguments = await usual(account)
    holders = Holders(monkeypatch)
    held = dict[str, int]()

    for tool in SPECS:
        toolset = load(SPECS[tool].toolset)
        use = partial(
            call_with, {"documents": Documents(read_here)}, toolset, account, tool, **arguments[tool]
        )
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(holders.during, number, use)
        held[tool] = len(holders.seen)
        holders.seen.clear()

    assert holders.most == 1
    # The others stream what they read, and count what they hold.
    assert sum(calls == 3 for calls in held.values()) > len(SPECS) // 2
    reading = ("nc_notes_get_note", "fetch", "nc_mail_get_message", "nc_deck_get_board")
    assert [held[tool] for tool in reading] == [3] * len(reading)


async def test_one_user_reads_one_large_note_as_a_resource_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _, account = tampered(Sandbox.demo())
    note = await call(account, "nc_notes_create_note", title="one", content="text")
    holders = Holders(monkeypatch)
    reader = Reader(Documents(nothing_read), cast("Any", ProgressLog()))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(6):
                use = partial(Notes().read, account, str(note.id), reader)
                group.start_soon(holders.during, number, use)

    assert (holders.most, len(holders.seen)) == (1, 6)


async def test_the_guard_surrounds_each_call_so_that_its_permit_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    during, after = watch_notes(monkeypatch), list[bool]()
    async with open_personal_app(tmp_path, Sandbox.demo()) as personal_app:
        asked = Asked(personal_app)
        async with (
            personal_app.person() as alice,
            personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
        ):
            listed = await client.call_tool("nc_notes_list_notes", {})
            assert listed.structured_content is not None
            note_id = listed.structured_content["notes"][0]["id"]
            found = await client.call_tool("nc_notes_get_note", {"note_id": note_id})
            after.append(await is_held("alice"))
            read = await client.read_resource(f"nc://notes/{note_id}")

    assert not found.is_error
    assert read.contents
    assert len(during) >= 3
    assert all(during)
    assert after == [False]


async def test_the_long_work_of_a_call_is_the_work_of_the_user_who_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gave_way, request = list[bool](), NextcloudHttp.request

    async def watched(http: NextcloudHttp, *given: object, **named: object) -> httpx2.Response:
        for user in (personal_caller(personal_app.nextcloud_url, "").principal, "another user"):
            with pace.request_of(user):
                gave_way.append(pace.others_began())
        return await cast("Any", request)(http, *given, **named)

    async with open_personal_app(tmp_path, Sandbox.demo()) as personal_app:
        asked = Asked(personal_app)
        async with (
            personal_app.person() as alice,
            personal_app.client(elicitation_callback=asked.by(alice.allow)) as client,
        ):
            await client.call_tool("nc_notes_list_notes", {})
            monkeypatch.setattr(NextcloudHttp, "request", watched)
            await client.call_tool("nc_notes_list_notes", {})

    assert gave_way[:2] == [False, True]


async def test_a_note_that_is_too_long_for_memory_is_refused_with_the_way_to_read_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notes_client, "_MAX_NOTE_BYTES", 10_000)
    account = account_in(Sandbox.demo())
    note = await call(account, "nc_notes_create_note", title="one", content="a" * 10_000)

    with pytest.raises(errors.TooLarge, match="nc_files_read_file reads it in parts"):
        await call(account, "nc_notes_get_note", note_id=note.id)


async def test_a_strangers_mail_is_cut_before_it_is_decoded_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """5 MB of `&` held the event loop for two seconds."""
    seen = list[tuple[int, bool]]()
    unescape, here = character_references.unescape, get_ident()

    def watched(text: str) -> str:
        seen.append((len(text), get_ident() == here))
        return unescape(text)

    monkeypatch.setattr(character_references, "unescape", watched)
    sandbox = Sandbox.demo()
    store = sandbox.state.store(MailStore)
    sent = store.add(store.mailboxes[0], "s", BOB, 1, "&" * 1_000_000 + "a" * (MAX_TEXT_BYTES - 999_999)).id

    ours = {"documents": Documents(read_here)}
    found = await call_with(ours, mail, account_in(sandbox), "nc_mail_get_message", message_id=sent)

    # Mail writes each as `&amp;`.
    assert seen == [(MAX_TEXT_BYTES, False)]
    assert found.content.startswith("&&")
    assert "longer than is read" in found.note


def test_the_values_of_a_row_are_put_together_once() -> None:
    """They were once for each column: a search in 500 rows of 200 columns took two seconds."""
    row = Row.model_validate({"id": 1, "tableId": 2, "data": [{"columnId": 3, "value": "abc"}]})

    assert row.values is row.values


async def test_a_wide_table_is_searched_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[int]()
    has_words = tables_tools.has_words

    def watched(*texts: str) -> bool:
        threads.add(get_ident())
        return has_words(*texts)

    monkeypatch.setattr(tables_tools, "has_words", watched)
    sandbox = Sandbox.demo()
    store = sandbox.state.store(TableStore)
    table = store.add("wide", "", "alice", "2026-01-01 00:00:00")
    columns = [
        store.add_column(table, {"type": "text", "subtype": "line", "title": f"c{number}"}, "")
        for number in range(8)
    ]
    for _ in range(5):
        store.add_row(table, {column.id: "abc" for column in columns})

    found = await call(account_in(sandbox), "nc_tables_get_table", table_id=table.id, query="abc")

    assert found.total == 5
    assert threads
    assert get_ident() not in threads


async def test_one_user_searches_one_table_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    account = account_in(Sandbox.demo())
    table = (await call(account, "nc_tables_list_tables")).tables[0]
    most = counted(monkeypatch, TablesClient, "rows")

    await at_once(lambda: call(account, "nc_tables_get_table", table_id=table.id, query="a"))

    assert most() == 1


@pytest.mark.process
@pytest.mark.parametrize("written", ["2, b'1 2\\n'", "2, b'\\n'", "1, b'a'"])
async def test_a_worker_that_writes_without_end_is_ended(written: str) -> None:
    """Its messages kept the server busy until the deadline, for up to 45 seconds."""
    number, text = written.split(", ")
    script = (
        f"import sys, os\nsys.stdin.buffer.read()\ndata = {text} * 16_000\n"
        f"while True:\n    os.write({number}, data)"
    )

    with anyio.fail_after(60):
        found = await process.extract(
            "pdf", held(b"x"), report=unheard, seconds=600, command=(sys.executable, "-I", "-c", script)
        )

    assert found.end == "failed"
    assert len(found.text) == (MAX_TEXT_BYTES if number == "1" else 0)


@pytest.mark.process
async def test_a_large_document_that_drips_holds_a_worker_for_a_time_only() -> None:
    async def drips() -> AsyncIterator[bytes]:
        yield b"%PDF"
        await anyio.sleep_forever()

    with anyio.fail_after(60):
        found = await process.extract("pdf", drips(), report=unheard, feed_seconds=0.2)

    assert (found.end, found.text) == ("slow", b"")


class Slow(httpx2.ASGITransport):
    """A Nextcloud whose storages begin to send files, and go on when told."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(app=sandbox.app)
        self.waiting = 0
        self.all_wait = anyio.Event()
        self.go_on = anyio.Event()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if request.method == "GET":
            stream = _Dripping(self, await response.aread())
            return httpx2.Response(response.status_code, headers=response.headers, stream=stream)
        return response


class _Dripping(httpx2.AsyncByteStream):
    def __init__(self, slow: Slow, data: bytes) -> None:
        self._slow, self._data = slow, data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data[:1]
        self._slow.waiting += 1
        if self._slow.waiting == AT_ONCE:
            self._slow.all_wait.set()
        await self._slow.go_on.wait()
        yield self._data[1:]


async def test_slow_storages_hold_no_worker_for_their_small_documents() -> None:
    """Three users whose storages dripped kept all others from reading documents, for ten minutes each."""
    sandbox, documents = Sandbox.demo(), Documents(reading)
    slow = Slow(sandbox)
    found = list[Extract | None]()

    async def read(uid: str) -> None:
        sandbox.add_user(uid).files.put("/slow.rtf", b"text")
        account = account_through(slow, uid)
        text = await documents.text(account, "/slow.rtf", "rtf", cast("Progress", ProgressLog()))
        found.append(text.extract)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(AT_ONCE):
                group.start_soon(read, f"user{number}")
            await slow.all_wait.wait()
            page = await documents.page(account_in(sandbox), "<p>quick")
            assert (page, found) == (("read 11", None), [])
            slow.go_on.set()

    assert [one and one.text for one in found] == [b"read 4"] * AT_ONCE


async def test_a_document_that_grows_while_it_is_opened_is_read_whole() -> None:
    sandbox = Sandbox.demo()
    files = sandbox.state.users["alice"].files
    files.put("/grown.rtf", b"small")

    class Growing(httpx2.ASGITransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.method == "GET":
                files.put("/grown.rtf", b"x" * (3 * SMALL_BYTES))
            return await super().handle_async_request(request)

    account = account_through(Growing(app=sandbox.app), "alice")
    found = await Documents(reading).text(account, "/grown.rtf", "rtf", cast("Progress", ProgressLog()))

    assert found.extract is not None
    assert found.extract.text == f"read {3 * SMALL_BYTES}".encode()


def test_a_result_of_megabytes_is_refused_before_anything_is_made_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name of 16 MB in one conversation held the event loop for three seconds and took 600 MB."""
    written = list[object]()
    monkeypatch.setattr(answer, "_json_of", written.append)

    with pytest.raises(errors.TooLarge, match="too much for one answer"):
        answer.result(ConversationPage(items=[_conversation("a" * 1_000_000)], total=1))

    assert written == []


def test_a_row_of_megabytes_is_not_written_to_find_out_whether_it_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pagination, "_writer", None)
    rows = [_conversation("a" * 1_000_000), _conversation("b" * 1_000_000)]

    assert pagination.fit(rows) == rows[:1]


def _conversation(name: str) -> Conversation:
    return Conversation.model_validate({"token": "t", "displayName": name, "type": 2, "lastActivity": 1})


def test_the_characters_of_a_strangers_text_are_removed_in_pieces() -> None:
    """In one piece no other thread ran for half a second."""
    text = "a\u200bé" * 100_000

    assert untrusted_text.seen(text) == "aé" * 100_000
    assert untrusted_text.seen("") == ""


@pytest.mark.parametrize("tool", ["nc_notes_append_content", "nc_notes_edit_note"])
async def test_a_note_that_would_be_held_many_times_in_an_edit_is_refused(
    monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """An edit of a note of 14 MB with one emoji took 220 MB."""
    monkeypatch.setattr(passage, "_MOST_MEMORY", 3000)
    sandbox = Sandbox.demo()
    store = NoteStore(sandbox.state.users["alice"], sandbox.state.clock)
    long = store.create(Changes(title="long", content="😀" + "a" * 1000))
    asked = {"content": "x"} if tool == "nc_notes_append_content" else {"old_text": "😀", "new_text": "x"}

    with pytest.raises(errors.TooLarge):
        await call(account_in(sandbox), tool, note_id=str(long.file_id), **asked)

    assert all(one.method == "GET" for one in sandbox.requests.records)
