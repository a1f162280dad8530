"""Attack: one valid token, at full speed: sessions without end, bodies of small objects, calls and streams at once."""

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Lock, get_ident
from time import sleep, thread_time
from timeit import repeat
from typing import Any

import anyio
import httpx2
import pytest
from pydantic import SecretStr
from starlette.types import ASGIApp, Message, Scope

from nextcloud_mcp_server.apps.files import edit as files_edit
from nextcloud_mcp_server.apps.notes import client as notes_client
from nextcloud_mcp_server.apps.notes import edit as notes_edit
from nextcloud_mcp_server.apps.notes import results
from nextcloud_mcp_server.apps.notes import texts as notes_texts
from nextcloud_mcp_server.apps.notes import tools as notes_tools
from nextcloud_mcp_server.apps.notes.resources import Notes
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.documents import charset
from nextcloud_mcp_server.errors import InvalidInput, TooManyRequests
from nextcloud_mcp_server.formats import ical, vcard
from nextcloud_mcp_server.nextcloud import aside, dav, outcome, ranking, sanitize, spelling
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.tools import registry
from nextcloud_mcp_server.web.request_limiter import RequestLimiter, RequestRates
from nextcloud_mcp_server.web.session_limiter import MOST_OF_CLIENT, SessionLimiter
from tests.auth_fixtures import Process, ProcessHost
from tests.bearer_fixtures import INITIALIZE, LIST, Served, serving, token
from tests.dav_fakes import account_in, account_through, call
from tests.integration.builtin_app import open_builtin_app
from tests.integration.oidc_app import OidcApp, open_oidc_app

Mode = Callable[[Path], AbstractAsyncContextManager[tuple[OidcApp, str]]]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
OPEN = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def strict(harness: ProcessHost, process: Process, **rates: float) -> AsyncGenerator[Served]:
    limiter = RequestLimiter(RequestRates(**({"refusal_seconds": 0, "wait_seconds": 0} | rates)))  # type: ignore[arg-type]
    sessions = partial(SessionLimiter, most_of_client=3, most_of_person=4)
    async with serving(harness, process, limiter=limiter, sessions=sessions) as served:
        yield served


async def alive(served: Served, session: str, who: str) -> bool:
    async with served.joining(who, session) as joined:
        return (await joined.post(LIST)).status_code == 200


async def test_endless_sessions_leave_those_of_other_users_alone(
    harness: ProcessHost, process: Process
) -> None:
    alice, bob = token(), token(sub="bob")
    async with strict(harness, process) as served, served.session(bob) as other:
        opened: list[str] = []
        async with served.http(alice) as http:
            for _ in range(8):
                answer = await http.post("/mcp", json=INITIALIZE)
                opened.append(answer.headers["Mcp-Session-Id"])
        left = [session for session in opened if await alive(served, session, alice)]

        assert left == opened[-3:]
        assert await alive(served, other.id, bob)


async def test_another_client_of_the_same_person_has_room_of_its_own(
    harness: ProcessHost, process: Process
) -> None:
    noisy, calm = token(), token(client_id="another", azp="another")
    async with strict(harness, process) as served, served.session(calm) as other:
        async with served.http(noisy) as http:
            for _ in range(8):
                await http.post("/mcp", json=INITIALIZE)

        assert await alive(served, other.id, calm)


async def test_requests_that_come_too_fast_are_refused_for_this_person_alone(
    harness: ProcessHost, process: Process
) -> None:
    async with (
        strict(harness, process, per_minute=2, burst=4) as served,
        served.http(token()) as noisy,
        served.http(token(sub="bob")) as calm,
    ):
        answers = [await noisy.post("/mcp", json=INITIALIZE) for _ in range(4)]
        other = await calm.post("/mcp", json=INITIALIZE)

    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert answers[-1].headers["Access-Control-Allow-Origin"] == "*"
    assert answers[-1].json()["error"] == "too_many_requests"
    assert other.status_code == 200


async def test_no_more_requests_wait_to_be_refused_than_memory_has_room_for() -> None:
    limiter = RequestLimiter(RequestRates(per_minute=2, burst=2, wait_seconds=0, refusal_seconds=60))
    mallory = Bearer(Principal("https://id", "mallory"), "assistant", None, 0, {})
    refused = 0

    async def ask() -> None:
        nonlocal refused
        try:
            async with limiter.admit(mallory):
                pass
        except TooManyRequests:
            refused += 1

    await ask()
    async with anyio.create_task_group() as group:
        for _ in range(520):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert refused == 8


@pytest.mark.parametrize(
    "body",
    [b"[" + b"{}," * 20_001 + b"{}]", b'{"a":' * 65 + b"1" + b"}" * 65, b'["' + b'","' * 1_000_000 + b'"]'],
)
async def test_a_body_of_small_things_is_refused_before_it_is_parsed(
    harness: ProcessHost, process: Process, body: bytes
) -> None:
    async with strict(harness, process) as served, served.http(token()) as http:
        answer = await http.post("/mcp", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 400
    assert "elements" in answer.text or "too deeply" in answer.text


@pytest.mark.parametrize("body", [b"[" + b"{}," * 40_000, b'["' + b'","' * 1_000_000])
async def test_a_body_that_is_refused_counts_like_one_that_is_read(
    harness: ProcessHost, process: Process, body: bytes
) -> None:
    async with (
        strict(harness, process, per_minute=2, burst=4) as served,
        served.http(token()) as noisy,
        served.http(token(sub="bob")) as calm,
    ):
        answers = [
            await noisy.post("/mcp", content=body, headers={"Content-Type": "application/json"})
            for _ in range(2)
        ]
        other = await calm.post("/mcp", json=INITIALIZE)

    assert answers[0].status_code == 400
    assert answers[1].status_code == 429
    assert other.status_code == 200


async def test_a_large_text_is_no_large_number_of_things(harness: ProcessHost, process: Process) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "no_tool", "arguments": {"note": "a, [b] {c}\n" * 200_000}},
    }
    async with strict(harness, process) as served, served.session(token()) as session:
        answer = await session.send("POST", json=call)

    assert answer.status_code == 200


def test_a_path_of_megabytes_is_refused_before_its_parts_are_looked_at() -> None:
    with pytest.raises(InvalidInput, match="longer than 4000 bytes"):
        dav.split("../" * 1_000_000)


def test_a_question_of_megabytes_is_refused_before_its_words_are_looked_at() -> None:
    assert ranking.terms_of("word " * 2_000)
    with pytest.raises(InvalidInput, match="longer than 10,000 characters"):
        ranking.terms_of("word " * 2_001)


def least(work: Callable[[], object]) -> float:
    """Return the processor time that some work takes, in seconds: other work on the machine does not count."""
    return min(repeat(work, timer=thread_time, number=1, repeat=3))


def test_an_address_of_megabytes_is_taken_for_no_resource_before_it_is_decoded() -> None:
    assert Notes.about.value(f"{Notes.about.prefix}{'1' * 60_000}") is not None
    assert Notes.about.value(f"{Notes.about.prefix}{'%31' * 1_000_000}") is None


def test_escapes_without_end_cost_little_more_than_to_find_them() -> None:
    written = "<U+202E>" * 400_000

    found = least(lambda: re.sub(r"<U\+([0-9A-F]{4,6})>", lambda one: one[0], written))
    meant = least(lambda: sanitize.meant(written))

    assert meant < 3 * found


@pytest.mark.parametrize(
    "replace",
    [partial(files_edit.replace, every=False), notes_edit.replace],
    ids=["in a file", "in a note"],
)
def test_a_passage_of_megabytes_costs_little_more_than_to_find_it(
    replace: Callable[[str, str, str], object],
) -> None:
    """Counted at each character, one edit of 400 kB delayed all other users for minutes."""
    text, passage = "a" * 60_000, "a" * 30_000

    def refused() -> None:
        with pytest.raises(InvalidInput, match="more than 10 times"):
            replace(text, passage, "b")

    found = least(lambda: text.find(passage, 1))
    took = least(refused)

    assert took < 300 * found


@pytest.mark.parametrize("query", ["a", "aaaab", "aaaaaaaaaaab"])
def test_a_word_of_megabytes_is_searched_in_as_little_time_as_a_short_one(query: str) -> None:
    """Each place in a word was compared with the whole rest of the word: 16 times the word took 256 times as long."""

    def searched(length: int) -> float:
        terms, documents = ranking.terms_of(query), [ranking.Document("x", "a" * length)]
        return least(lambda: ranking.rank(documents, terms))

    assert searched(8_000) < 60 * searched(500)


def test_a_line_of_thousands_of_letters_is_decoded_in_as_little_time_as_many_lines() -> None:
    """The line was read once for each of its letters."""
    lines, line = (b"\xe9t\xe9\n" + b"aaaa\n" * 4_000, b"\xe9t\xe9\n" + b"a" * 20_000)

    took = [least(lambda text=text: charset.of_file(text)) for text in (lines, line)]

    assert took[1] < 20 * took[0]


async def test_one_user_ranks_in_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, most, running = Lock(), Counter[str](), Counter[str]()

    def slow(documents: Sequence[ranking.Document], *_: object, **__: object) -> ranking.Ranking:
        who = documents[0].title
        with at_once:
            running[who] += 1
            most[who] = max(most[who], running[who])
        sleep(0.05)
        with at_once:
            running[who] -= 1
        return ranking.Ranking([], [])

    monkeypatch.setattr(ranking, "rank", slow)
    async with anyio.create_task_group() as group:
        for who in ("alice", "alice", "alice", "bob"):
            search = partial(ranking.rank_aside, [ranking.Document(who, "")], (), uid=who)
            group.start_soon(search)

    assert most == {"alice": 1, "bob": 1}


async def test_every_long_work_of_a_user_waits_for_the_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search prepared the texts of its notes in a second thread, and an edit held the event loop."""
    threads, here = list[str](), get_ident()
    hold = aside.aside

    async def watched(work: Callable[[], object], *, uid: str, size: int | None = None) -> object:
        def there() -> object:
            threads.append("here" if get_ident() == here else uid)
            return work()

        return await hold(there, uid=uid, size=size)

    for module in (notes_client, ranking, notes_tools):
        monkeypatch.setattr(module, "aside", watched)
    account = account_in(Sandbox.demo())
    note = await call(account, "nc_notes_create_note", title="long", content="a plan\n" * 20_000)

    await call(account, "nc_notes_search_notes", query="plan")
    searched = threads[:]
    await call(account, "nc_notes_append_content", note_id=note.id, content="more")

    assert searched == ["alice"] * 3
    assert threads[3:] == ["alice"]


class InEdits(httpx2.ASGITransport):
    """Counts the texts that were read and are not written yet."""

    held = most = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            self.held += 1
            self.most = max(self.most, self.held)
            # Others that may read, do.
            await anyio.sleep(0.01)
        response = await super().handle_async_request(request)
        self.held -= request.method == "PUT"
        return response


@pytest.mark.parametrize("tool", ["nc_notes_append_content", "nc_notes_edit_note", "nc_files_edit_file"])
async def test_one_user_holds_the_text_of_one_edit_at_a_time(tool: str) -> None:
    """32 edits of texts of 2 MB took more than 100 MB, which others then lacked."""
    sandbox = Sandbox.demo()
    counted = InEdits(app=sandbox.app)
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=counted)
    nextcloud = Nextcloud(NextcloudUrl.parse("http://localhost"), pool)
    account = nextcloud.account(BasicCredential("alice", SecretStr("alice")), uid="alice")
    texts = 8
    ids = [
        (await call(account, "nc_notes_create_note", title=f"{number}", content="once")).id
        for number in range(texts)
    ]
    for number in range(texts):
        await call(account, "nc_files_write_file", path=f"{number}.txt", content="once")
    counted.held = counted.most = 0

    async with anyio.create_task_group() as group:
        for number, note_id in enumerate(ids):
            what: Mapping[str, object] = {
                "nc_notes_append_content": {"note_id": note_id, "content": "more"},
                "nc_notes_edit_note": {"note_id": note_id, "old_text": "once", "new_text": "twice"},
                "nc_files_edit_file": {"path": f"{number}.txt", "old_text": "once", "new_text": "twice"},
            }[tool]
            group.start_soon(partial(call, account, tool, **what))

    assert counted.most == 1
    assert counted.held == 0


class InSearch(httpx2.ASGITransport):
    """Counts the requests for notes that are under way at once."""

    running = most = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        is_notes = "/apps/notes/" in request.url.path
        self.running += is_notes
        self.most = max(self.most, self.running)
        # Others that may begin, do.
        await anyio.sleep(0.005)
        try:
            return await super().handle_async_request(request)
        finally:
            self.running -= is_notes


@pytest.mark.parametrize("tool", ["nc_notes_search_notes", "search"])
async def test_one_user_searches_in_whole_texts_in_one_call_at_a_time(tool: str) -> None:
    """40 searches at once in four notes of 2 MB took 900 MB."""
    counted = InSearch(app=Sandbox.demo().app)
    account = account_through(counted, "alice")
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(partial(call, account, tool, query="shopping list"))

    assert counted.most == 1


async def test_a_note_is_edited_once_and_compared_before_it_is_normalised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of four millions of line ends was replaced twice, and the texts were normalised to be compared."""
    lengths, edits = list[int](), list[int]()
    composed, append = spelling.composed, notes_edit.append

    def normalised(text: str) -> str:
        lengths.append(len(text))
        return composed(text)

    def appended(text: str, addition: str) -> str:
        edits.append(len(text))
        return append(text, addition)

    monkeypatch.setattr(outcome, "composed", normalised)
    monkeypatch.setattr(notes_edit, "append", appended)
    account = account_in(Sandbox.demo())
    note = await call(account, "nc_notes_create_note", title="long", content="é\n" * 20_000)

    await call(account, "nc_notes_append_content", note_id=note.id, content="more\n" * 20_000)

    assert max(lengths, default=0) < 100
    assert len(edits) == 1


@pytest.mark.parametrize(
    "line", ["", " ", "\ufeff", "\r", "text", "    # code", "\t# code", "``", "~~"], ids=repr
)
def test_only_lines_with_marks_are_looked_at_for_a_heading(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """A section of a note of four million empty lines held the event loop for seven seconds."""
    looked: list[str] = []
    parsed = vars(notes_edit)["_parsed"]

    def counted(text: str) -> object:
        looked.append(text)
        return parsed(text)

    monkeypatch.setattr(notes_edit, "_parsed", counted)

    text = notes_edit.replace_section(
        f"{line}\n" * 10_000 + "# a\nold\n" + f"{line}\n" * 10_000, "# a", "new"
    )

    assert "# a\nnew" in text.replace("\r", "")
    assert len(looked) == 2


def test_a_line_of_blanks_and_marks_is_no_heading_that_takes_hours() -> None:
    plain = "# a" + "a" * 8_000
    hostile = "# a" + " \t" * 2_000 + "#" * 4_000 + "x"

    usual = least(lambda: _no_such_section(plain))
    took = least(lambda: _no_such_section(hostile))

    assert took < 100 * usual


@pytest.mark.parametrize("lines", ["A:\n" * 900_000, "A:\n" * 10_001, "ADR:" + ";" * 60_000 + "\n"])
async def test_a_card_of_a_million_lines_is_refused_before_it_is_parsed(
    monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    """One vCard of 3 MB held the event loop for 15 seconds and took a gigabyte, before any request to Nextcloud."""
    parsed: list[str] = []
    read = vcard.Line.read

    def counted(raw: str) -> vcard.Line:
        parsed.append(raw)
        return read(raw)

    monkeypatch.setattr(vcard.Line, "read", counted)
    card = f"BEGIN:VCARD\nVERSION:3.0\nFN:x\n{lines}END:VCARD\n"

    with pytest.raises(InvalidInput, match="'vcard' is too long for one contact"):
        await call(account_in(Sandbox.demo()), "nc_contacts_create_contact", vcard=card)

    assert parsed == []


COMPONENT = (
    "BEGIN:VCALENDAR\r\nBEGIN:{0}\r\nUID:u\r\nDTSTART:20261201T100000Z\r\n{1}END:{0}\r\nEND:VCALENDAR\r\n"
)


@pytest.mark.parametrize(
    ("stored", "tool", "given"),
    [
        ("contacts", "nc_contacts_search_contacts", {"query": "long"}),
        ("contacts", "nc_contacts_get_contact", {"book": "contacts", "contact_id": "long.vcf"}),
        ("VEVENT", "nc_calendar_get_event", {"event_id": "personal/long.ics"}),
        ("VEVENT", "nc_calendar_update_event", {"event_id": "personal/long.ics", "title": "new"}),
        ("VEVENT", "nc_calendar_delete_event", {"event_id": "personal/long.ics"}),
        ("VTODO", "nc_tasks_create_task", {"title": "sub", "parent": "personal/long.ics"}),
        ("VTODO", "nc_tasks_update_task", {"task_id": "personal/long.ics", "title": "new"}),
        ("VTODO", "nc_tasks_delete_task", {"task_id": "personal/long.ics"}),
    ],
)
async def test_stored_texts_of_thousands_of_lines_are_parsed_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, stored: str, tool: str, given: dict[str, str]
) -> None:
    """An event of 1.6 MB held the event loop for a second, a card of 4.9 MB for 17."""
    sandbox, threads = Sandbox.demo(), set[int]()
    alice = sandbox.state.users["alice"]
    if stored == "contacts":
        lines = "TEL:1\r\n" * 9_000
        card = f"BEGIN:VCARD\r\nVERSION:3.0\r\nUID:u\r\nFN:long\r\n{lines}END:VCARD\r\n"
        alice.address_books["contacts"].put("long.vcf", card, 0)
    else:
        alice.calendars["personal"].kinds = (stored,)
        text = COMPONENT.format(stored, "X-A:1\r\n" * 9_000)
        alice.calendars["personal"].put("long.ics", text, 0)
    for module in (ical, vcard.VCard):
        monkeypatch.setattr(module, "read", _recorded(module.read, threads))
    if "update" in tool or "delete" in tool:
        given = {**given, "etag": alice.calendars["personal"].objects["long.ics"].etag}

    await call(account_in(sandbox), tool, **given)

    assert threads
    assert get_ident() not in threads


def _recorded(read: Callable[[str], Any], threads: set[int]) -> Callable[[str], Any]:
    def recorded(text: str) -> object:
        if len(text) > 50_000:
            threads.add(get_ident())
        return read(text)

    return recorded


@pytest.mark.parametrize("tool", ["nc_calendar_create_event", "nc_tasks_create_task"])
def test_a_description_of_megabytes_is_refused_before_it_is_folded_into_lines(tool: str) -> None:
    """Its lines were escaped and folded on the event loop, for seconds."""
    specs = {spec.name: spec for name in ("calendar", "tasks") for spec in registry.load(name).tools}

    with pytest.raises(InvalidInput, match="'description' cannot be longer"):
        specs[tool].arguments.validate({"title": "x", "description": "\n" * 1_500_000})


LISTS = {
    (spec.name, argument): kinds
    for toolset in registry.TOOLSETS
    for spec in registry.load(toolset).tools
    for argument, schema in spec.schema["properties"].items()
    if (kinds := {one.get("type") for one in schema.get("anyOf", [schema])}) & {"array", "object"}
}


def entries(kinds: set[object], count: int, length: int) -> object:
    names = [f"{number:x<{length}}" for number in range(count)]
    return names if "array" in kinds else dict.fromkeys(names, 1)


@pytest.mark.parametrize(("tool", "argument"), LISTS)
def test_a_list_has_a_limit_for_all_of_its_entries_together(tool: str, argument: str) -> None:
    """Thousands of categories, each as short as it must be, were folded into one line for seconds."""
    [spec] = [spec for name in registry.TOOLSETS for spec in registry.load(name).tools if spec.name == tool]
    many, long = (entries(LISTS[tool, argument], *shape) for shape in ((1_001, 5), (20, 16_000)))

    with pytest.raises(InvalidInput, match=rf"'{argument}' cannot have more than 1,000 entries"):
        spec.arguments.validate({argument: many})
    with pytest.raises(InvalidInput, match=rf"The entries of '{argument}' together cannot be longer"):
        spec.arguments.validate({argument: long})


@pytest.mark.parametrize(
    ("note", "query"), [("é" * 150_000 + " tulips", "tulips"), ("tulips " + "é\n" * 75_000, "tulips")]
)
async def test_long_texts_are_folded_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, note: str, query: str
) -> None:
    """Finding the place for a snippet in three notes stopped all other requests for seconds."""
    threads: list[int] = []

    def recorded(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: object) -> object:
            threads.append(get_ident())
            return work(*given)

        return run

    monkeypatch.setattr(notes_texts, "fold", recorded(notes_texts.fold))
    monkeypatch.setattr(results, "unfolded_place", recorded(results.unfolded_place))
    sandbox = Sandbox.demo()
    sandbox.state.users["alice"].files.put("/Notes/Long.md", note.encode())

    found = await call(account_in(sandbox), "nc_notes_search_notes", query=query)

    assert [hit.snippet for hit in found.notes if "tulips" in hit.snippet and hit.title == "Long"]
    assert threads
    assert get_ident() not in threads


def test_a_replacement_that_would_take_all_memory_is_refused() -> None:
    text, new = "a" * 1_000_000, "b" * 100_000

    with pytest.raises(InvalidInput, match="nothing was changed"):
        files_edit.replace(text, "a", new, every=True)


async def test_streams_are_open_to_a_number_and_then_refused(harness: ProcessHost, process: Process) -> None:
    async with strict(harness, process, streams=4) as served, AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(served.session(token())) for _ in range(3)]
        answers: list[int] = []
        async with anyio.create_task_group() as group:
            for session in sessions[:2]:
                group.start_soon(partial(session.send, "GET"))
            await anyio.wait_all_tasks_blocked()
            answers.append((await sessions[2].send("GET")).status_code)
            group.cancel_scope.cancel()

    assert answers == [429]


@pytest.mark.parametrize("modern", [True, False], ids=["2026-07-28", "2025-11-25"])
async def test_a_client_that_has_gone_ends_its_call_where_the_protocol_says_so(
    monkeypatch: pytest.MonkeyPatch, harness: ProcessHost, process: Process, *, modern: bool
) -> None:
    """2026-07-28, basic/patterns/cancellation: a disconnect is the cancellation; before, a call goes on."""
    begun, ended = anyio.Event(), anyio.Event()

    async def hang(*_: object) -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def leave(app: ASGIApp, headers: Mapping[str, str], body: bytes) -> None:
        left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if left:
                return left.pop()
            await begun.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            del message

        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope: Scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "https",
            "path": "/mcp", "raw_path": b"/mcp", "root_path": "", "query_string": b"", "headers": raw,
            "client": ("192.0.2.1", 5), "server": ("mcp.test", 443),
        }  # fmt: skip
        await app(scope, receive, send)

    monkeypatch.setattr(mcp_server.Server, "call_tool", hang)
    async with serving(harness, process) as served, served.session(token()) as session:
        headers = OPEN | {
            "Host": "mcp.test",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {token()}",
        }
        params: dict[str, Any] = {"name": "nc_notes_list_notes", "arguments": {}}
        if modern:
            headers |= {
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": "tools/call",
                "Mcp-Name": params["name"],
            }
            params["_meta"] = META
        else:
            headers |= {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": session.id}
        body = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}).encode()
        with anyio.fail_after(60):
            await leave(served.app, headers, body)
        with anyio.move_on_after(60 if modern else 0.05):
            await ended.wait()

        assert ended.is_set() is modern


@asynccontextmanager
async def builtin(folder: Path) -> AsyncGenerator[tuple[OidcApp, str]]:
    async with (
        open_builtin_app(folder) as builtin_app,
        builtin_app.person() as alice,
        httpx2.AsyncClient() as http,
    ):
        yield builtin_app, str((await builtin_app.sign_in(alice, http))["access_token"])


@asynccontextmanager
async def oidc(folder: Path) -> AsyncGenerator[tuple[OidcApp, str]]:
    async with open_oidc_app(folder) as oidc_app:
        yield oidc_app, oidc_app.token("alice")


@pytest.mark.parametrize("mode", [oidc, builtin], ids=["oidc", "builtin"])
async def test_a_token_has_so_many_sessions_open_at_once_in_either_mode(
    mode: Mode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with mode(tmp_path) as (oidc_app, given):
        headers = OPEN | {"Authorization": f"Bearer {given}"}
        async with httpx2.AsyncClient(base_url=oidc_app.url, headers=headers, timeout=60) as http:
            with caplog.at_level("INFO", "mcp.server.streamable_http"):
                opened = [
                    (await http.post("/mcp", json=INITIALIZE)).headers["Mcp-Session-Id"]
                    for _ in range(MOST_OF_CLIENT + 2)
                ]
                closed = _closed(caplog)
                # A closed session is opened again for its next request, and another one closed.
                again = await http.post("/mcp", content=json.dumps(LIST), headers=_named(opened[0]))
                closed_for_it = _closed(caplog)[len(closed) :]

    assert closed == opened[:2]
    assert (again.status_code, closed_for_it) == (200, opened[2:3])


def _closed(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records]
    return [text.rpartition(" ")[2] for text in told if text.startswith("Terminating session")]


def _named(session: str) -> dict[str, str]:
    return {"Mcp-Session-Id": session, "Content-Type": "application/json"}


def _no_such_section(note: str) -> None:
    with pytest.raises(InvalidInput, match="no such heading"):
        notes_edit.replace_section(note, "other", "new")
