"""Attack, or an accident: every user's requests carry the same ids, as those of equal clients do.

JSON-RPC ids and progress tokens are unique within one client's session only, and every client counts
from 1. Whatever a server keeps under such a number alone mixes users up.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.demo.wire_client import HandshakeClient, StatelessClient, WireClient
from nextcloud_mcp_server.protocol.wire import EXTENSION_ID
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.load_cluster import LIST, URL_MODE, connect, move_in, note_of

NAMES = [f"person{number}" for number in range(20)]
TURNS = 3
DRAFT: dict[str, Any] = {"extensions": {EXTENSION_ID: {}}}
ERAS: dict[str, type[WireClient]] = {"with a session": HandshakeClient, "on its own": StatelessClient}


@pytest.fixture
async def oidc_app(tmp_path: Path) -> AsyncGenerator[OidcApp]:
    async with open_oidc_app(tmp_path / "data") as made:
        for name in NAMES:
            move_in(made.sandbox, made.issuer, name)
        yield made


async def clients(
    oidc_app: OidcApp, stack: AsyncExitStack, kind: type[WireClient], capabilities: dict[str, Any]
) -> dict[str, WireClient]:
    """Give each user a client of their own."""
    made: dict[str, WireClient] = {}
    for name in NAMES:
        headers = {"Authorization": f"Bearer {oidc_app.token(name)}"}
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
        made[name] = kind(http, f"{oidc_app.url}/mcp", capabilities=capabilities)
        await made[name].open()
    return made


async def all_ask(
    made: dict[str, WireClient], method: str, params: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Let every user send their request at once; each request has the same id."""
    answers: dict[str, Any] = {}

    async def ask(name: str) -> None:
        answers[name] = await made[name].request(method, params[name])

    async with anyio.create_task_group() as group:
        for name in made:
            group.start_soon(ask, name)
    return answers


def everybody(params: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict.fromkeys(NAMES, params)


def titles(answer: dict[str, Any]) -> Sequence[str]:
    return [note["title"] for note in answer["result"]["structuredContent"]["notes"]]


@pytest.mark.parametrize("era", ERAS)
async def test_answers_to_the_same_ids_do_not_cross(oidc_app: OidcApp, era: str) -> None:
    assert oidc_app.parts is not None
    database = (await oidc_app.parts.services.get()).database
    await connect(NAMES, database, oidc_app.sandbox, oidc_app.issuer, oidc_app.nextcloud_url)
    async with AsyncExitStack() as stack:
        made = await clients(oidc_app, stack, ERAS[era], URL_MODE)
        for _ in range(TURNS):
            answers = await all_ask(made, "tools/call", everybody({"name": LIST, "arguments": {}}))

            assert {name: titles(answers[name]) for name in NAMES} == {
                name: [note_of(name)] for name in NAMES
            }


async def test_consent_requests_and_how_they_end_do_not_cross(oidc_app: OidcApp) -> None:
    """All wait under the same id and the same progress token; half decline, then half connect."""
    declining, connecting = NAMES[::2], NAMES[1::2]
    assert oidc_app.parts is not None
    services = await oidc_app.parts.services.get()
    provisioning = services.provisioning
    assert provisioning is not None
    async with AsyncExitStack() as stack:
        made = await clients(oidc_app, stack, HandshakeClient, DRAFT)
        asked = await all_ask(made, "tools/call", everybody({"name": LIST, "arguments": {}}))
        ids = {name: asked[name]["error"]["data"]["elicitations"][0]["elicitationId"] for name in NAMES}
        waiting = {name: anyio.Event() for name in NAMES}
        for name in NAMES:
            made[name].on_notice = lambda _, event=waiting[name]: event.set()

        async def end() -> None:
            for event in waiting.values():
                await event.wait()
            for name in declining:
                await provisioning.decline(ids[name])
            await connect(
                connecting, services.database, oidc_app.sandbox, oidc_app.issuer, oidc_app.nextcloud_url
            )

        answers: dict[str, Any] = {}
        async with anyio.create_task_group() as group:
            group.start_soon(end)
            tracked = {name: {"elicitationId": ids[name], "_meta": {"progressToken": 1}} for name in NAMES}
            answers = await all_ask(made, "elicitation/track", tracked)

    assert len(set(ids.values())) == len(NAMES)
    assert {name: answers[name]["result"]["status"] for name in declining} == dict.fromkeys(
        declining, "declined"
    )
    assert {name: answers[name]["result"]["status"] for name in connecting} == dict.fromkeys(
        connecting, "complete"
    )
