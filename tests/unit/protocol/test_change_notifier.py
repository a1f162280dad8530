from collections.abc import AsyncGenerator, Mapping
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ListenHandler
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp_types import SubscriptionFilter, SubscriptionsListenRequestParams

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.protocol import change_notifier as module
from nextcloud_mcp_server.protocol import wire
from nextcloud_mcp_server.protocol.change_notifier import ChangeNotifier, ListChanged
from nextcloud_mcp_server.storage.records import Principal
from tests.sdk_request import Channel, request

#: The notifications of MCP 2025-11-25 (server/tools, server/prompts, server/resources).
LISTS: dict[ListChanged, str] = {
    ToolsListChanged: "notifications/tools/list_changed",
    PromptsListChanged: "notifications/prompts/list_changed",
    ResourcesListChanged: "notifications/resources/list_changed",
}


def owner(ctx: ServerRequestContext[Any, Any]) -> str:
    return ctx.request.headers["owner"] if ctx.request else "alice"


def of(
    name: str, channel: Channel, *, session: str = "s", version: str = "2025-11-25"
) -> ServerRequestContext[Any, Any]:
    return request(session=session, headers={"owner": name}, channel=channel, version=version)


@pytest.fixture
async def group() -> AsyncGenerator[TaskGroup]:
    async with anyio.create_task_group() as running:
        yield running
        running.cancel_scope.cancel()


async def test_only_the_sessions_and_streams_of_the_person_are_told(group: TaskGroup) -> None:
    change_notifier, hers, his, stream, foreign = (
        ChangeNotifier(owner),
        Channel(),
        Channel(),
        Channel(),
        Channel(),
    )
    change_notifier.join(of("alice", hers), ToolsListChanged)
    change_notifier.join(of("bob", his), ToolsListChanged)
    for name, channel in (("alice", stream), ("bob", foreign)):
        asked = SubscriptionsListenRequestParams(notifications=SubscriptionFilter(tools_list_changed=True))
        group.start_soon(
            ListenHandler(change_notifier.bus(name)), of(name, channel, version="2026-07-28"), asked
        )
    await anyio.wait_all_tasks_blocked()

    await change_notifier.bus("alice").publish(ToolsListChanged())
    await anyio.wait_all_tasks_blocked()

    assert [method for method, _ in hers.sent] == ["notifications/tools/list_changed"]
    assert [method for method, _ in stream.sent][1:] == ["notifications/tools/list_changed"]
    assert his.sent == []
    assert len(foreign.sent) == 1


async def test_a_session_hears_of_the_resources_it_named_and_of_nothing_after_its_end() -> None:
    change_notifier, channel = ChangeNotifier(owner), Channel()
    ctx = of("alice", channel)
    session = change_notifier.join(ctx)
    assert session is not None
    session.uris = {"nc://notes/1"}

    await change_notifier.tell("alice", ResourceUpdated("nc://notes/1"), ResourceUpdated("nc://notes/2"))
    await wire.connection(ctx).exit_stack.aclose()
    await change_notifier.tell("alice", ResourcesListChanged())

    assert [params for _, params in channel.sent] == [{"uri": "nc://notes/1"}]


async def test_of_a_user_only_the_callers_are_told_that_may_know(group: TaskGroup) -> None:
    callers = {
        name: Caller(Principal("https://issuer.test", "alice"), name, "") for name in ("reads", "not", "late")
    }
    now = {"s1": "reads", "s2": "not"}
    change_notifier = ChangeNotifier(owner, caller=lambda ctx: callers[now[str(wire.session_key(ctx))]])
    channels = {name: Channel() for name in ("s1", "s2", "stream", "deaf")}
    for session in ("s1", "s2"):
        change_notifier.join(of("alice", channels[session], session=session), ResourcesListChanged)
    asked = SubscriptionsListenRequestParams(notifications=SubscriptionFilter(resources_list_changed=True))
    for stream, name in (("stream", "reads"), ("deaf", "not")):
        handler = ListenHandler(change_notifier.bus("alice", callers[name]))
        group.start_soon(handler, of("alice", channels[stream], version="2026-07-28"), asked)
    await anyio.wait_all_tasks_blocked()
    for channel in channels.values():
        channel.sent.clear()

    await change_notifier.tell("alice", ResourcesListChanged(), to=lambda caller: caller == callers["reads"])
    await anyio.wait_all_tasks_blocked()
    known = change_notifier.callers("alice")
    # The newest request of a session counts.
    now["s1"] = "late"
    change_notifier.join(of("alice", channels["s1"], session="s1"))

    assert {name: len(channel.sent) for name, channel in channels.items()} == {
        "s1": 1,
        "s2": 0,
        "stream": 1,
        "deaf": 0,
    }
    assert known == {callers["reads"], callers["not"]}
    assert change_notifier.callers("bob") == frozenset()


@pytest.mark.parametrize("listed", LISTS)
async def test_a_session_hears_of_the_lists_it_asked_for_and_of_no_other(listed: ListChanged) -> None:
    change_notifier, channel, silent = ChangeNotifier(owner), Channel(), Channel()
    change_notifier.join(of("alice", channel), listed)
    session = change_notifier.join(of("alice", silent, session="subscribed only"))
    assert session is not None
    session.uris = ["nc://notes/1"]

    await change_notifier.tell("alice", *(each() for each in LISTS))

    assert [method for method, _ in channel.sent] == [LISTS[listed]]
    assert silent.sent == []


async def test_a_session_that_asks_for_one_list_after_the_other_hears_of_both() -> None:
    change_notifier, channel = ChangeNotifier(owner), Channel()
    ctx = of("alice", channel)
    change_notifier.join(ctx, ToolsListChanged)
    change_notifier.join(ctx, PromptsListChanged)

    await change_notifier.tell("alice", *(each() for each in LISTS))

    assert [method for method, _ in channel.sent] == [LISTS[ToolsListChanged], LISTS[PromptsListChanged]]


async def test_a_session_joins_once_and_a_request_without_one_never() -> None:
    change_notifier, channel = ChangeNotifier(owner), Channel()
    ctx = of("alice", channel)

    assert change_notifier.join(ctx) is change_notifier.join(ctx, ResourcesListChanged)
    assert change_notifier.join(of("alice", channel, version="2026-07-28")) is None
    await change_notifier.tell("alice", ResourcesListChanged())
    assert len(channel.sent) == 1


async def test_of_too_many_sessions_of_a_user_the_oldest_is_forgotten_and_none_of_another() -> None:
    change_notifier, first, his = ChangeNotifier(owner), Channel(), Channel()
    oldest = of("alice", first, session="first")
    change_notifier.join(oldest, ToolsListChanged)
    change_notifier.join(of("bob", his), ToolsListChanged)
    for number in range(module.MAX_SESSIONS):
        change_notifier.join(of("alice", Channel(), session=f"s{number}"))

    await change_notifier.tell("alice", ToolsListChanged())
    await change_notifier.tell("bob", ToolsListChanged())
    await wire.connection(oldest).exit_stack.aclose()

    assert first.sent == []
    assert len(his.sent) == 1


async def test_a_session_that_was_forgotten_for_others_comes_back_with_what_it_had_subscribed_to() -> None:
    change_notifier, first = ChangeNotifier(owner), Channel()
    oldest = of("alice", first, session="first")
    session = change_notifier.join(oldest)
    assert session is not None
    session.uris = ["nc://notes/1"]
    for number in range(module.MAX_SESSIONS):
        change_notifier.join(of("alice", Channel(), session=f"s{number}"))

    again = change_notifier.join(oldest)
    await change_notifier.tell("alice", ResourceUpdated("nc://notes/1"))
    await wire.connection(oldest).exit_stack.aclose()
    await change_notifier.tell("alice", ResourceUpdated("nc://notes/1"))

    assert again is session
    assert len(first.sent) == 1


async def test_a_client_that_does_not_read_is_not_waited_for() -> None:
    class Stuck(Channel):
        async def notify(self, method: str, params: Mapping[str, Any] | None, opts: object = None) -> None:  # noqa: ARG002 - see `Channel`
            await anyio.sleep_forever()

    change_notifier, channel = ChangeNotifier(owner, send_seconds=0), Channel()
    change_notifier.join(of("alice", Stuck(), session="stuck"), ToolsListChanged)
    change_notifier.join(of("alice", channel, session="reads"), ToolsListChanged)

    with anyio.fail_after(60):
        await change_notifier.tell("alice", ToolsListChanged())

    assert channel.sent


async def test_a_stream_that_ends_takes_no_other_of_its_person_along() -> None:
    change_notifier, heard = ChangeNotifier(owner), list[object]()
    first = change_notifier.listen("alice", lambda _: None)
    second = change_notifier.listen("alice", heard.append)

    first()
    await change_notifier.tell("alice", ToolsListChanged())
    second()
    second()
    await change_notifier.tell("alice", ToolsListChanged())

    assert heard == [ToolsListChanged()]
