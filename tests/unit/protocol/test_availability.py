from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError

from nextcloud_mcp_server.errors import Unreachable
from nextcloud_mcp_server.protocol import availability as module
from nextcloud_mcp_server.protocol.availability import Availability, Facts
from tests.sdk_request import Channel, request

TOOLS = {
    "connect": Facts(toolset="connection", app=None, read_only=False, always=True),
    "read_note": Facts(toolset="notes", app="notes", read_only=True, always=False),
    "write_note": Facts(toolset="notes", app="notes", read_only=False, always=False),
    "read_file": Facts(toolset="files", app=None, read_only=True, always=False),
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
    return Availability(TOOLS, lambda _: "alice", InMemorySubscriptionBus(), monotonic=time or Time())


async def everything(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
    return {"tools": [{"name": name} for name in TOOLS]}


async def shown(
    availability: Availability, headers: Mapping[str, str], channel: Channel | None = None
) -> set[str]:
    ctx = request(method="tools/list", session="a", headers=headers, channel=channel)
    result = await availability.middleware(ctx, everything)
    assert isinstance(result, dict)
    return {tool["name"] for tool in result["tools"]}


async def learn(availability: Availability, apps: frozenset[str] | None) -> None:
    done = anyio.Event()

    async def fetch() -> frozenset[str]:
        done.set()
        if apps is None:
            raise Unreachable("Nothing answers.")
        return apps

    availability.learn("alice", fetch)
    with anyio.fail_after(60):
        await done.wait()
    await anyio.lowlevel.checkpoint()
    await anyio.lowlevel.checkpoint()


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
    bus = InMemorySubscriptionBus()
    availability = Availability(SCOPED, lambda _: "alice", bus, scopes=lambda _: scopes, monotonic=Time())
    refused: set[str] = set()
    for name in SCOPED:
        try:
            await availability.middleware(request(params={"name": name}), everything)
        except MCPError:
            refused.add(name)

    assert await shown(availability, {}) == names
    assert refused == set(SCOPED) - names


async def test_what_is_no_list_passes_as_it_is() -> None:
    async def nothing(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        return None

    assert await made().middleware(request(method="notifications/x"), nothing) is None
    assert await made().middleware(request(params={"name": "unknown"}), everything)


async def test_the_tools_of_a_missing_app_vanish_and_their_owner_is_told_once(group: TaskGroup) -> None:
    availability, channel = made(), Channel()
    group.start_soon(availability.run)
    await shown(availability, {}, channel)

    await learn(availability, frozenset({"files"}))

    assert await shown(availability, {}) == {"connect", "read_file"}
    assert availability.lacks("alice", availability.app_of("read_note"))
    assert not availability.lacks("bob", "notes")
    assert [method for method, _ in channel.sent] == ["notifications/tools/list_changed"]


async def test_nobody_is_told_when_nothing_changes(group: TaskGroup) -> None:
    availability, channel = made(), Channel()
    group.start_soon(availability.run)
    await shown(availability, {}, channel)

    await learn(availability, frozenset({"files", "notes"}))

    assert channel.sent == []


async def test_a_nextcloud_that_cannot_be_asked_hides_nothing_and_is_asked_again(group: TaskGroup) -> None:
    availability = made()
    group.start_soon(availability.run)

    await learn(availability, None)
    assert await shown(availability, {}) == set(TOOLS)
    await learn(availability, frozenset())

    assert await shown(availability, {}) == {"connect", "read_file"}


async def test_apps_are_asked_for_again_after_an_hour_only(group: TaskGroup) -> None:
    time = Time()
    availability = made(time)
    group.start_soon(availability.run)
    await learn(availability, frozenset({"notes"}))

    async def unasked() -> frozenset[str]:
        raise NotImplementedError

    availability.learn("alice", unasked)
    time.now += module.REFRESH_SECONDS + 1
    await learn(availability, frozenset())

    assert availability.lacks("alice", availability.app_of("read_note"))


async def test_of_too_many_sessions_the_oldest_are_forgotten(group: TaskGroup) -> None:
    availability, first = made(), Channel()
    group.start_soon(availability.run)
    await availability.middleware(request(method="tools/list", session="s", channel=first), everything)
    for number in range(module.MAX_SESSIONS):
        await availability.middleware(request(method="tools/list", session=f"s{number}"), everything)
    await availability.middleware(
        request(method="tools/list", version="2026-07-28", session="modern"), everything
    )

    await learn(availability, frozenset())

    assert first.sent == []


async def test_another_persons_session_is_not_told(group: TaskGroup) -> None:
    def owner(ctx: ServerRequestContext[Any, Any]) -> str:
        return ctx.request.headers["owner"] if ctx.request else ""

    availability = Availability(TOOLS, owner, InMemorySubscriptionBus(), monotonic=Time())
    bobs = Channel()
    group.start_soon(availability.run)
    ctx = request(method="tools/list", session="b", headers={"owner": "bob"}, channel=bobs)
    await availability.middleware(ctx, everything)

    await learn(availability, frozenset({"files"}))

    assert availability.lacks("alice", availability.app_of("read_note"))
    assert bobs.sent == []
