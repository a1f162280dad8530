"""Attack: somebody subscribes to another person's resources, or to what they may not read themselves.

Addresses are the same for everybody (`nc://files/Readme.md` is each person's own), so a server that
tells of a change by the address alone tells everybody when anybody's file changes.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.subscriptions import Subscription
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import EmptyResult, SubscribeRequest, SubscribeRequestParams

from tests.integration.crowd import Crowd, open_crowd
from tests.integration.world import until
from tests.town import connect, move_in

SHARED_NAME = "nc://files/diary.txt"


@pytest.fixture
async def crowd(tmp_path: Path) -> AsyncGenerator[Crowd]:
    async with open_crowd(tmp_path / "data", update_seconds=1) as made:
        # Two writes within one second are to differ.
        made.sandbox.state.one_second_etags = False
        for name in ("carol", "dave"):
            move_in(made.sandbox, made.issuer, name)
            write(made, name, "1")
        assert made.parts is not None
        database = (await made.parts.core.get()).database
        await connect(("carol", "dave"), database, made.sandbox, made.issuer, made.nextcloud_url)
        made.sandbox.requests.clear()
        yield made


def write(crowd: Crowd, name: str, text: str) -> None:
    crowd.sandbox.state.users[name].files.put("/diary.txt", text.encode())


class Ear:
    """Remembers the notices that a client of the handshake era gets."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def __call__(self, message: Any) -> None:  # noqa: ANN401 - whatever the SDK hands on
        method = getattr(message, "method", "")
        self.heard.append(str(getattr(message.params, "uri", "") or method) if method else "")


async def test_a_change_is_told_to_its_person_alone_in_both_eras(crowd: Crowd) -> None:
    hers, his = Ear(), Ear()
    async with AsyncExitStack() as stack:

        async def stream(name: str) -> Subscription:
            client: Client = await stack.enter_async_context(crowd.client(crowd.token(name)))
            return await stack.enter_async_context(
                client.listen(resource_subscriptions=[SHARED_NAME], resources_list_changed=True)
            )

        for name, ear in (("carol", hers), ("dave", his)):
            client = await stack.enter_async_context(
                crowd.client(crowd.token(name), mode="legacy", message_handler=ear)
            )
            subscribe = SubscribeRequest(params=SubscribeRequestParams(uri=SHARED_NAME))
            await client.session.send_request(subscribe, EmptyResult)
        streams = {name: await stream(name) for name in ("carol", "dave")}
        told: dict[str, list[object]] = {"carol": [], "dave": []}

        async def follow(name: str) -> None:
            async for event in streams[name]:
                told[name].append(event)

        async with anyio.create_task_group() as group:
            for name in streams:
                group.start_soon(follow, name)
            await until(lambda: looks(crowd, "carol") > 1 and looks(crowd, "dave") > 1)
            write(crowd, "carol", "22")
            await until(lambda: SHARED_NAME in hers.heard and ResourceUpdated(SHARED_NAME) in told["carol"])
            seen = looks(crowd, "dave")
            # Dave's own next look is over as well.
            await until(lambda: looks(crowd, "dave") > seen + 1)
            group.cancel_scope.cancel()

    assert SHARED_NAME not in his.heard
    assert ResourceUpdated(SHARED_NAME) not in told["dave"]


def looks(crowd: Crowd, name: str) -> int:
    """Count how often somebody's top folder was looked at."""
    path = f"/remote.php/dav/files/{name}"
    return sum((one.method, one.path) == ("PROPFIND", path) for one in crowd.sandbox.requests.records)


async def test_an_access_that_is_ended_ends_the_stream_and_the_looks(crowd: Crowd) -> None:
    async with crowd.client(crowd.token("carol")) as client:
        async with client.listen(resource_subscriptions=[SHARED_NAME]) as stream:
            await client.call_tool("revoke_nextcloud_access", {})
            with anyio.fail_after(30):
                rest = [event async for event in stream]
        async with client.listen(resource_subscriptions=[SHARED_NAME]) as again:
            honored = again.honored.resource_subscriptions

    assert ResourceUpdated(SHARED_NAME) not in rest
    assert not honored


async def test_a_session_that_nobody_listens_on_is_not_looked_after_and_hears_later_what_it_missed(
    crowd: Crowd,
) -> None:
    async with crowd.raw(crowd.token("carol")) as gone, crowd.client(crowd.token("dave")) as there:
        async with there.listen(resource_subscriptions=[SHARED_NAME]):
            await gone.request("resources/subscribe", {"uri": SHARED_NAME})
            # The first look at something asks twice.
            await until(lambda: looks(crowd, "dave") > 4 and looks(crowd, "carol") > 0)
            unheard = looks(crowd, "carol")
        write(crowd, "carol", "22")
        async with anyio.create_task_group() as group:
            await group.start(gone.listen)
            await until(lambda: bool(gone.notices))
            group.cancel_scope.cancel()

    assert unheard <= 2
    assert [each["params"]["uri"] for each in gone.notices if "uri" in each.get("params", {})] == [
        SHARED_NAME
    ]


async def test_an_empty_request_for_a_stream_after_an_event_gets_one_that_is_empty(crowd: Crowd) -> None:
    async with crowd.raw(crowd.token("carol")) as client, httpx2.AsyncClient(timeout=30) as http:
        session = client._session  # pyright: ignore[reportPrivateUsage] - its id is what is tested
        headers = {
            **session,
            "Authorization": f"Bearer {crowd.token('carol')}",
            "Accept": "text/event-stream",
            "Last-Event-ID": "7",
        }
        async with http.stream("GET", f"{crowd.url}/mcp", headers=headers) as answer:
            status, kind = answer.status_code, answer.headers["content-type"]

    assert status == 200
    assert kind.startswith("text/event-stream")
