from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.errors import StorageError, Unreachable
from nextcloud_mcp_server.protocol import availability as module
from nextcloud_mcp_server.protocol.availability import AppList, Apps, Availability, Facts, FetchApps
from nextcloud_mcp_server.protocol.change_notifier import ChangeNotifier
from tests.sdk_request import Channel, request

TOOLS = {
    "connect": Facts(toolset="connection", app=None, read_only=False, always=True),
    "read_note": Facts(toolset="notes", app="notes", read_only=True, always=False),
    "write_note": Facts(toolset="notes", app="notes", read_only=False, always=False),
    "read_file": Facts(toolset="files", app=None, read_only=True, always=False),
}
WITH_MENU = {
    **TOOLS,
    "read_news": Facts(toolset="news", app="news", read_only=True, always=False, menu=True),
}


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def group() -> AsyncGenerator[TaskGroup]:
    async with anyio.create_task_group() as running:
        yield running
        running.cancel_scope.cancel()


def made(time: Time | None = None) -> Availability:
    return Availability(TOOLS, ChangeNotifier(lambda _: "alice"), monotonic=time or Time())


async def everything(ctx: ServerRequestContext[Any, Any], of: Iterable[str] = TOOLS) -> HandlerResult:
    return {"tools": [{"name": name} for name in of]}


async def asks(
    method: str, availability: Availability, channel: Channel, *, session: str | None = "a"
) -> None:
    """Send a request, which is answered with nothing in particular."""
    await availability.middleware(request(method=method, session=session, channel=channel), everything)


async def shown(
    availability: Availability, headers: Mapping[str, str], channel: Channel | None = None
) -> set[str]:
    ctx = request(method="tools/list", session="a", headers=headers, channel=channel)
    result = await availability.middleware(ctx, everything)
    assert isinstance(result, dict)
    return {tool["name"] for tool in result["tools"]}


def having(*names: str, etag: str | None = None) -> Apps:
    return Apps(AppList(frozenset(names), etag))


async def learn(availability: Availability, apps: Apps | None) -> None:
    done = anyio.Event()

    async def fetch(_: Apps) -> Apps:
        done.set()
        if apps is None:
            raise Unreachable("Nothing answers.")
        return apps

    availability.learn("alice", fetch)
    with anyio.fail_after(60):
        await done.wait()
    await anyio.wait_all_tasks_blocked()


def methods(channel: Channel) -> list[str]:
    return [method.removeprefix("notifications/") for method, _ in channel.sent]


async def unasked(_: Apps) -> Apps:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        ({}, {"connect", "read_note", "write_note", "read_file"}),
        ({"x-mcp-toolsets": "all"}, {"connect", "read_note", "write_note", "read_file"}),
        ({"x-mcp-toolsets": "notes, "}, {"connect", "read_note", "write_note"}),
        ({"x-mcp-toolsets": "nonsense"}, {"connect"}),
        ({"x-mcp-readonly": "TRUE"}, {"connect", "read_note", "read_file"}),
        ({"x-mcp-readonly": "no"}, {"connect", "read_note", "write_note", "read_file"}),
    ],
)
async def test_headers_narrow_the_list_but_never_hide_the_way_to_connect(
    headers: dict[str, str], names: set[str]
) -> None:
    assert await shown(made(), headers) == names


async def test_a_call_that_the_headers_leave_out_is_refused() -> None:
    ctx = request(params={"name": "write_note"}, headers={"x-mcp-readonly": "1"})

    with pytest.raises(MCPError, match="leave out the tool write_note"):
        await made().middleware(ctx, everything)


SCOPED = {
    **TOOLS,
    "read_note": replace(TOOLS["read_note"], scopes=frozenset({"notes:read"})),
    "write_note": replace(TOOLS["write_note"], scopes=frozenset({"notes:read", "notes:write"})),
}


@pytest.mark.parametrize(
    ("scopes", "names"),
    [
        (None, {"connect", "read_note", "write_note", "read_file"}),
        (frozenset[str](), {"connect", "read_file"}),
        (frozenset({"notes:read"}), {"connect", "read_file", "read_note"}),
        (frozenset({"notes:write"}), {"connect", "read_file"}),
        (frozenset({"notes:read", "notes:write"}), {"connect", "read_note", "write_note", "read_file"}),
    ],
)
async def test_the_token_decides_about_the_list_and_the_call_alike(
    scopes: frozenset[str] | None, names: set[str]
) -> None:
    change_notifier = ChangeNotifier(lambda _: "alice")
    availability = Availability(SCOPED, change_notifier, scopes=lambda _: scopes, monotonic=Time())
    refused: set[str] = set()
    for name in SCOPED:
        try:
            await availability.middleware(request(params={"name": name}), everything)
        except MCPError:
            refused.add(name)

    assert await shown(availability, {}) == names
    assert refused == set(SCOPED) - names


@pytest.mark.parametrize(
    ("scopes", "names"),
    [
        (frozenset[str](), {"connect", "read_file"}),
        (frozenset({"notes:read"}), {"connect", "read_file", "read_note", "write_note"}),
        (frozenset({"notes:write"}), {"connect", "read_file"}),
    ],
)
async def test_what_the_sign_in_does_not_ask_for_is_listed_and_asked_for_by_its_first_call(
    scopes: frozenset[str], names: set[str]
) -> None:
    availability = Availability(
        SCOPED,
        ChangeNotifier(lambda _: "alice"),
        scopes=lambda _: scopes,
        at_sign_in=frozenset({"notes:read"}),
    )

    assert await shown(availability, {}) == names
    with pytest.raises(MCPError, match="write_note was not called"):
        await availability.middleware(request(params={"name": "write_note"}), everything)


async def test_what_is_no_list_passes_as_it_is() -> None:
    async def nothing(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        return None

    assert await made().middleware(request(method="notifications/x"), nothing) is None
    assert await made().middleware(request(params={"name": "unknown"}), everything)


async def test_the_tools_of_a_missing_app_vanish_and_their_owner_is_told_once(group: TaskGroup) -> None:
    availability, channel = made(), Channel()
    group.start_soon(availability.run)
    await shown(availability, {}, channel)

    await learn(availability, having("files"))

    assert await shown(availability, {}) == {"connect", "read_file"}
    assert availability.lacks("alice", availability.app_of("read_note"))
    assert not availability.lacks("bob", "notes")
    assert methods(channel) == ["tools/list_changed"]


async def test_when_the_tools_stay_the_same_only_what_there_is_to_read_is_new(group: TaskGroup) -> None:
    availability, channel = made(), Channel()
    group.start_soon(availability.run)
    await shown(availability, {}, channel)
    await asks("resources/list", availability, channel)

    await learn(availability, having("files", "notes"))
    await availability.heard("alice", having("files", "notes", "more", etag="e2"))

    assert methods(channel) == ["resources/list_changed"]


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("tools/list", ["tools/list_changed"]),
        ("prompts/list", ["prompts/list_changed"]),
        ("resources/list", ["resources/list_changed"]),
        ("resources/templates/list", ["resources/list_changed"]),
        ("tools/call", []),
        ("ping", []),
    ],
)
@pytest.mark.parametrize("session", ["over HTTP", None])
async def test_what_a_session_has_asked_for_is_what_it_hears_of(
    method: str, told: list[str], session: str | None
) -> None:
    availability, channel = made(), Channel()
    await asks(method, availability, channel, session=session)

    await availability.heard("alice", having("files"))

    assert methods(channel) == told


def connected(availability: Availability, apps: Apps, *, until: anyio.Event | None = None) -> list[str]:
    """Let there be access; the answer notes what was asked for."""
    asked: list[str] = []

    async def fetch(_: Apps) -> Apps:
        asked.append("apps")
        if until is not None:
            await until.wait()
        return apps

    async def find_access(_: ServerRequestContext[Any, Any]) -> tuple[FetchApps, str]:
        asked.append("access")
        return fetch, ""

    availability.find_access = find_access
    return asked


async def test_the_first_list_of_a_connected_person_is_what_their_nextcloud_has(group: TaskGroup) -> None:
    availability, channel = made(), Channel()
    asked = connected(availability, having("files"))
    group.start_soon(availability.run)

    first = await shown(availability, {}, channel)
    availability.learn("alice", unasked)
    await anyio.wait_all_tasks_blocked()
    second = await shown(availability, {}, channel)

    assert first == second == {"connect", "read_file"}
    assert asked == ["access", "apps"]
    assert channel.sent == []


async def test_without_access_a_list_shows_everything_and_looks_for_access_once_in_a_while(
    group: TaskGroup,
) -> None:
    time, looked = Time(), list[float]()
    availability = made(time)
    group.start_soon(availability.run)

    async def find_access(_: ServerRequestContext[Any, Any]) -> None:
        looked.append(time.now)

    availability.find_access = find_access
    for seconds in (0.0, 1.0, module.RECHECK_SECONDS):
        time.now = 100.0 + seconds
        assert await shown(availability, {}) == set(TOOLS)
    time.now += 1
    await shown(availability, {})

    assert looked == [100.0, 101.0 + module.RECHECK_SECONDS]


@pytest.mark.parametrize("error", [StorageError("The database is away."), ValueError("surprise")])
async def test_an_access_that_cannot_be_looked_up_hides_nothing(group: TaskGroup, error: Exception) -> None:
    availability = made()
    group.start_soon(availability.run)

    async def find_access(_: ServerRequestContext[Any, Any]) -> None:
        raise error

    availability.find_access = find_access

    assert await shown(availability, {}) == set(TOOLS)


async def test_a_nextcloud_that_is_slow_delays_no_list_for_long_and_what_it_says_is_announced(
    group: TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIST_SECONDS", 0.01)
    availability, channel, gate = made(), Channel(), anyio.Event()
    asked = connected(availability, having("files"), until=gate)
    group.start_soon(availability.run)

    first = await shown(availability, {}, channel)
    gate.set()
    await anyio.wait_all_tasks_blocked()

    assert first == set(TOOLS)
    assert await shown(availability, {}, channel) == {"connect", "read_file"}
    assert asked == ["access", "apps"]
    assert methods(channel) == ["tools/list_changed"]


async def test_an_access_that_is_found_too_slowly_delays_all_lists_together_for_one_time(
    group: TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIST_SECONDS", 0.01)
    availability, looked = made(), list[str]()
    group.start_soon(availability.run)

    async def find_access(_: ServerRequestContext[Any, Any]) -> None:
        looked.append("access")
        await anyio.sleep_forever()

    availability.find_access = find_access
    lists = [await shown(availability, {}) for _ in range(3)]

    assert lists == [set(TOOLS)] * 3
    assert looked == ["access"]


async def test_of_too_many_people_whose_access_was_looked_for_the_first_is_forgotten(
    group: TaskGroup,
) -> None:
    looked: list[str] = []
    change_notifier = ChangeNotifier(lambda ctx: ctx.request.headers["owner"] if ctx.request else "")
    availability = Availability(TOOLS, change_notifier, monotonic=Time(), max_people=2)
    group.start_soon(availability.run)

    async def find_access(ctx: ServerRequestContext[Any, Any]) -> None:
        looked.append(str(change_notifier.owner(ctx)))

    availability.find_access = find_access
    for name in ("alice", "bob", "carol", "carol", "alice"):
        await shown(availability, {"owner": name})

    assert looked == ["alice", "bob", "carol", "alice"]


async def test_a_nextcloud_that_cannot_be_asked_hides_nothing_and_is_asked_again(group: TaskGroup) -> None:
    availability = made()
    group.start_soon(availability.run)

    await learn(availability, None)
    assert await shown(availability, {}) == set(TOOLS)
    await learn(availability, having())

    assert await shown(availability, {}) == {"connect", "read_file"}


async def test_an_answer_that_breaks_the_question_is_logged_and_others_are_still_learned(
    group: TaskGroup, caplog: pytest.LogCaptureFixture
) -> None:
    availability = made()
    group.start_soon(availability.run)

    async def broken(_: Apps) -> Apps:
        raise ValueError("surprise")

    availability.learn("bob", broken)
    await learn(availability, having())

    assert "could not be fetched" in caplog.text
    assert availability.lacks("alice", "notes")


async def test_apps_are_asked_for_again_after_a_while_only_and_with_the_etag(group: TaskGroup) -> None:
    time, etags = Time(), list[str | None]()
    availability = made(time)
    group.start_soon(availability.run)

    async def same(known: Apps) -> Apps:
        etags.append(known.capabilities.etag)
        return having(etag="e1")

    await availability.ask("alice", same)
    availability.learn("alice", unasked)
    await availability.ask("alice", unasked)
    time.now += module.REFRESH_SECONDS + 1
    availability.learn("alice", same)
    availability.learn("alice", unasked)
    await anyio.wait_all_tasks_blocked()

    assert etags == [None, "e1"]
    assert availability.lacks("alice", "notes")


async def test_what_one_persons_nextcloud_lacks_hides_nothing_of_another_persons() -> None:
    availability = made()

    await availability.heard("bob", having())

    assert await shown(availability, {}) == set(TOOLS)


async def test_the_apps_of_a_former_account_are_asked_for_again_at_once() -> None:
    availability, asked = made(), list[str]()

    async def fetch(known: Apps) -> Apps:
        asked.append(known.account)
        return replace(having("notes"), account="alice" if len(asked) == 1 else "bob")

    await availability.ask("alice", fetch, account="alice")
    await availability.ask("alice", fetch, account="alice")
    await availability.ask("alice", fetch, account="bob")

    assert asked == ["", "alice"]


async def test_calls_that_come_together_ask_once() -> None:
    availability, gate, asked = made(), anyio.Event(), list[Apps]()

    async def slow(known: Apps) -> Apps:
        asked.append(known)
        await gate.wait()
        return having()

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(availability.ask, "alice", slow)
        await anyio.wait_all_tasks_blocked()
        gate.set()

    assert asked == [having()]
    assert availability.lacks("alice", "notes")


async def test_what_is_too_old_or_of_too_many_people_is_forgotten() -> None:
    time = Time()
    availability = Availability(TOOLS, ChangeNotifier(lambda _: "alice"), monotonic=time, max_people=2)
    for owner in ("alice", "bob"):
        await availability.heard(owner, having())
    kept = availability.lacks("alice", "notes")

    await availability.heard("one more", having())
    still = [availability.lacks(owner, "notes") for owner in ("alice", "bob", "one more")]
    time.now += module.KEPT_SECONDS + 1

    assert kept
    assert still == [False, True, True]
    assert not availability.lacks("one more", "notes")


@pytest.mark.parametrize(
    ("menu", "also"),
    [
        (None, {"read_news"}),
        (AppList(frozenset({"files", "notes"})), set[str]()),
        (AppList(frozenset({"news"})), {"read_news"}),
    ],
)
async def test_what_says_nothing_of_itself_is_hidden_when_it_is_not_in_the_menu(
    menu: AppList | None, also: set[str]
) -> None:
    availability = Availability(WITH_MENU, ChangeNotifier(lambda _: "alice"), monotonic=Time())

    await availability.heard("alice", Apps(AppList(frozenset({"files", "news"})), menu))
    ctx = request(method="tools/list", session="a")
    result = await availability.middleware(ctx, partial(everything, of=WITH_MENU))

    assert isinstance(result, dict)
    assert {tool["name"] for tool in result["tools"]} == {"connect", "read_file"} | also


async def test_only_what_is_needed_is_kept_of_what_was_told() -> None:
    availability = Availability(WITH_MENU, ChangeNotifier(lambda _: "alice"), monotonic=Time())
    everywhere = frozenset({"files", "notes", "news", "photos"})

    await availability.heard("alice", Apps(AppList(everywhere, "e1"), AppList(everywhere, "e2")))

    assert availability.known("alice") == Apps(
        AppList(frozenset({"notes"}), "e1"), AppList(frozenset({"news"}), "e2")
    )
    assert made().in_menu == frozenset()
