"""Attack: a user subscribes to another user's resources, or to what they may not read themselves.

Addresses are the same for every user (`nc://files/Readme.md` is each user's own), so a server that
tells of a change by the address alone tells every user when anyone's file changes.
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
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp_types import EmptyResult, SubscribeRequest, SubscribeRequestParams

from nextcloud_mcp_server.sandbox.apps.notes.store import Changes, NoteStore
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.integration.personal_app import until
from tests.load_cluster import connect, move_in

SHARED_NAME = "nc://files/diary.txt"


@pytest.fixture
async def oidc_app(tmp_path: Path) -> AsyncGenerator[OidcApp]:
    async with open_oidc_app(tmp_path / "data", update_seconds=1) as made:
        # Two writes within one second are to differ.
        made.sandbox.state.one_second_etags = False
        for name in ("carol", "dave"):
            move_in(made.sandbox, made.issuer, name)
            write(made, name, "1")
        assert made.parts is not None
        database = (await made.parts.services.get()).database
        await connect(("carol", "dave"), database, made.sandbox, made.issuer, made.nextcloud_url)
        made.sandbox.requests.clear()
        yield made


def write(oidc_app: OidcApp, name: str, text: str) -> None:
    oidc_app.sandbox.state.users[name].files.put("/diary.txt", text.encode())


class Ear:
    """Remembers the notices that a client of the handshake era gets."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def __call__(self, message: Any) -> None:  # noqa: ANN401 - whatever the SDK hands on
        method = getattr(message, "method", "")
        self.heard.append(str(getattr(message.params, "uri", "") or method) if method else "")


async def test_a_change_is_told_to_its_person_alone_in_both_eras(oidc_app: OidcApp) -> None:
    hers, his = Ear(), Ear()
    async with AsyncExitStack() as stack:

        async def stream(name: str) -> Subscription:
            client: Client = await stack.enter_async_context(oidc_app.client(oidc_app.token(name)))
            return await stack.enter_async_context(
                client.listen(resource_subscriptions=[SHARED_NAME], resources_list_changed=True)
            )

        for name, ear in (("carol", hers), ("dave", his)):
            client = await stack.enter_async_context(
                oidc_app.client(oidc_app.token(name), mode="legacy", message_handler=ear)
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
            await until(lambda: looks(oidc_app, "carol") > 1 and looks(oidc_app, "dave") > 1)
            write(oidc_app, "carol", "22")
            await until(lambda: SHARED_NAME in hers.heard and ResourceUpdated(SHARED_NAME) in told["carol"])
            seen = looks(oidc_app, "dave")
            # Dave's own next look is over as well.
            await until(lambda: looks(oidc_app, "dave") > seen + 1)
            group.cancel_scope.cancel()

    assert SHARED_NAME not in his.heard
    assert ResourceUpdated(SHARED_NAME) not in told["dave"]


def looks(oidc_app: OidcApp, name: str) -> int:
    """Count how often a user's top folder was looked at."""
    path = f"/remote.php/dav/files/{name}"
    return sum((one.method, one.path) == ("PROPFIND", path) for one in oidc_app.sandbox.requests.records)


async def test_a_changed_list_is_told_to_no_client_that_may_read_nothing_in_it(oidc_app: OidcApp) -> None:
    """Another client of the same user may read notes, and looks for new ones."""
    tokens = {
        "wide": oidc_app.token("carol"),
        "narrow": oidc_app.token("carol", scope="openid files:read"),
        "stranger": oidc_app.token("carol", client_id="stranger"),
    }
    told: dict[str, list[object]] = {name: [] for name in tokens}
    async with AsyncExitStack() as stack:
        # Every client hears that a user is connected, and which apps they have: both is known before.
        await (await stack.enter_async_context(oidc_app.raw(tokens["wide"]))).request("resources/list", {})
        session = await stack.enter_async_context(oidc_app.raw(tokens["stranger"]))
        await session.request("resources/list", {})

        async def stream(name: str) -> Subscription:
            client: Client = await stack.enter_async_context(oidc_app.client(tokens[name]))
            return await stack.enter_async_context(
                client.listen(resource_subscriptions=[SHARED_NAME], resources_list_changed=True)
            )

        async def follow(name: str, events: Subscription) -> None:
            async for event in events:
                told[name].append(event)

        streams = {name: await stream(name) for name in tokens}
        async with anyio.create_task_group() as group:
            await group.start(session.listen)
            for name, events in streams.items():
                group.start_soon(follow, name, events)
            await until(lambda: looks(oidc_app, "carol") > 1)
            NoteStore(oidc_app.sandbox.state.users["carol"], oidc_app.clock).create(Changes(title="New"))
            await until(lambda: ResourcesListChanged() in told["wide"])
            write(oidc_app, "carol", "22")
            await until(lambda: ResourceUpdated(SHARED_NAME) in told["narrow"])
            group.cancel_scope.cancel()

    assert told["stranger"] == []
    assert set(told["narrow"]) == {ResourceUpdated(SHARED_NAME)}
    assert session.notices == []


async def test_an_access_that_is_ended_ends_the_stream_and_the_looks(oidc_app: OidcApp) -> None:
    async with oidc_app.client(oidc_app.token("carol")) as client:
        async with client.listen(resource_subscriptions=[SHARED_NAME]) as stream:
            await client.call_tool("revoke_nextcloud_access", {})
            with anyio.fail_after(60):
                rest = [event async for event in stream]
        async with client.listen(resource_subscriptions=[SHARED_NAME]) as again:
            honored = again.honored.resource_subscriptions

    assert ResourceUpdated(SHARED_NAME) not in rest
    assert not honored


async def test_a_session_without_a_stream_is_not_watched_and_hears_later_what_it_missed(
    oidc_app: OidcApp,
) -> None:
    async with (
        oidc_app.raw(oidc_app.token("carol")) as gone,
        oidc_app.client(oidc_app.token("dave")) as there,
    ):
        async with there.listen(resource_subscriptions=[SHARED_NAME]):
            await gone.request("resources/subscribe", {"uri": SHARED_NAME})
            # The first look at something asks twice.
            await until(lambda: looks(oidc_app, "dave") > 4 and looks(oidc_app, "carol") > 0)
            unheard = looks(oidc_app, "carol")
        write(oidc_app, "carol", "22")
        async with anyio.create_task_group() as group:
            await group.start(gone.listen)
            await until(lambda: bool(gone.notices))
            group.cancel_scope.cancel()

    assert unheard <= 2
    assert [each["params"]["uri"] for each in gone.notices if "uri" in each.get("params", {})] == [
        SHARED_NAME
    ]


async def test_an_empty_request_for_a_stream_after_an_event_gets_one_that_is_empty(oidc_app: OidcApp) -> None:
    async with oidc_app.raw(oidc_app.token("carol")) as client, httpx2.AsyncClient(timeout=60) as http:
        session = client._session  # pyright: ignore[reportPrivateUsage] - its id is what is tested
        headers = {
            **session,
            "Authorization": f"Bearer {oidc_app.token('carol')}",
            "Accept": "text/event-stream",
            "Last-Event-ID": "7",
        }
        async with http.stream("GET", f"{oidc_app.url}/mcp", headers=headers) as answer:
            status, kind = answer.status_code, answer.headers["content-type"]

    assert status == 200
    assert kind.startswith("text/event-stream")
