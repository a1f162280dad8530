"""Attack: a client uses a token for less than its user allowed, to do more than the token covers.

What a call may do is what the user allowed this client, within the scopes of the token and within
the operator's settings. In both modes the client here may do everything, and its token covers
`files:read` alone.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server.auth.scopes import expand
from nextcloud_mcp_server.demo.wire_client import HandshakeClient
from tests.clients_fixtures import IN_ORDER
from tests.integration.builtin_app import BuiltinApp, open_builtin_app
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.load_cluster import connect, move_in

NARROW = "files:read"
NOTE = "nc://notes/{id}"
CONNECTION = {"request_nextcloud_access", "revoke_nextcloud_access"}


@asynccontextmanager
async def oidc(folder: Path) -> AsyncGenerator[tuple[OidcApp, str]]:
    """Let carol's client do everything, and give it a token for files alone."""
    async with open_oidc_app(folder) as oidc_app:
        move_in(oidc_app.sandbox, oidc_app.issuer, "carol")
        assert oidc_app.parts is not None
        database = (await oidc_app.parts.services.get()).database
        await connect(("carol",), database, oidc_app.sandbox, oidc_app.issuer, oidc_app.nextcloud_url)
        yield oidc_app, oidc_app.token("carol", scope=f"openid {NARROW}")


@asynccontextmanager
async def builtin(folder: Path) -> AsyncGenerator[tuple[BuiltinApp, str]]:
    """Let alice's client do everything, and narrow its token when it is refreshed (RFC 6749 §6)."""
    async with (
        open_builtin_app(folder) as builtin_app,
        httpx2.AsyncClient(timeout=60) as http,
        builtin_app.person("alice") as alice,
    ):
        tokens = await builtin_app.sign_in(alice, http, only=IN_ORDER)
        form = {
            "grant_type": "refresh_token",
            "client_id": tokens["client_id"],
            "refresh_token": tokens["refresh_token"],
            "scope": NARROW,
        }
        yield builtin_app, (await http.post(f"{builtin_app.url}/token", data=form)).json()["access_token"]


@pytest.fixture(params=[oidc, builtin], ids=["oidc", "builtin"])
async def narrow(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[OidcApp, str]]:
    async with request.param(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def client(narrow: tuple[OidcApp, str]) -> AsyncGenerator[HandshakeClient]:
    server, token = narrow
    async with server.raw(token, capabilities={"elicitation": {"url": {}}}) as opened:
        yield opened


async def test_a_call_that_the_token_does_not_cover_is_refused_and_names_the_scopes(
    client: HandshakeClient,
) -> None:
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("tools/call", {"name": "nc_notes_list_notes", "arguments": {}}, "files:read notes:read"),
        ("tools/call", {"name": "nc_files_write_file", "arguments": {}}, "files:read files:write"),
        ("resources/read", {"uri": "nc://notes/1"}, "files:read notes:read"),
        ("resources/subscribe", {"uri": "nc://notes/1"}, "files:read notes:read"),
    ]

    refused = [(await client.refused(method, params), scopes) for method, params, scopes in asked]

    for (status, challenge), scopes in refused:
        assert status == 403
        assert 'error="insufficient_scope"' in challenge
        named = re.search(r'\bscope="([^"]+)"', challenge)
        # Of what this server offers, all reading is these two.
        assert named is not None
        assert expand(named[1].split()) & set(IN_ORDER) == set(scopes.split())


async def test_lists_and_completions_hold_nothing_that_the_token_does_not_cover(
    narrow: tuple[OidcApp | BuiltinApp, str], client: HandshakeClient
) -> None:
    async def listed(method: str, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await client.request(method, {}))["result"][name]
        return found

    async def completed(ref: dict[str, str], argument: str) -> list[str]:
        params = {"ref": ref, "argument": {"name": argument, "value": ""}}
        answer = await client.request("completion/complete", params)
        values: list[str] = answer.get("result", {}).get("completion", {}).get("values", [])
        return values

    asks_later = isinstance(narrow[0], BuiltinApp)
    found = await listed("tools/list", "tools")
    # Writing is asked for by its first call where the sign-in does not ask for it.
    writing = {one["name"] for one in found if not one["annotations"]["readOnlyHint"]} - CONNECTION
    tools = {one["name"] for one in found} - writing
    resources = await listed("resources/list", "resources")
    templates = await listed("resources/templates/list", "resourceTemplates")
    prompts = {one["name"] for one in await listed("prompts/list", "prompts")}
    notes = await completed({"type": "ref/resource", "uri": NOTE}, "id")
    by_prompt = await completed({"type": "ref/prompt", "name": "tidy_note"}, "note")

    assert "nc_files_list_folder" in tools
    assert not [name for name in tools if name.startswith("nc_notes")]
    assert bool(writing) is asks_later
    assert not [one["uri"] for one in resources if one["uri"].startswith("nc://notes")]
    assert not [one["uriTemplate"] for one in templates if one["uriTemplate"].startswith("nc://notes")]
    assert prompts == {"find_document"}
    assert (notes, by_prompt) == ([], [])


async def test_a_stream_hears_of_nothing_that_the_token_does_not_cover(narrow: tuple[OidcApp, str]) -> None:
    server, token = narrow
    async with (
        server.client(token) as client,
        client.listen(resource_subscriptions=["nc://notes/1", "nc://files/diary.txt"]) as stream,
    ):
        honored = stream.honored.resource_subscriptions

    assert honored == ["nc://files/diary.txt"]


async def test_asking_for_more_than_the_token_covers_asks_the_person_for_nothing(
    client: HandshakeClient,
) -> None:
    async def call(name: str, **arguments: object) -> dict[str, Any]:
        result: dict[str, Any] = (await client.request("tools/call", {"name": name, "arguments": arguments}))[
            "result"
        ]
        return result

    refused = await call("request_nextcloud_access", permissions=["notes:write"])
    granted = await call("request_nextcloud_access")
    status = await call("check_provisioning_status")

    assert refused["isError"]
    assert "does not cover notes:write. Have the app sign in again" in refused["content"][0]["text"]
    assert "elicitationId" not in str(refused)
    assert granted["structuredContent"]["permissions"] == [NARROW]
    assert status["structuredContent"]["permissions"] == [NARROW]
    assert "the app has to sign in again" in status["structuredContent"]["next_step"]


async def test_a_wide_token_of_the_same_client_works_beside_the_narrow_one(tmp_path: Path) -> None:
    call: tuple[str, dict[str, Any]] = ("tools/call", {"name": "nc_notes_list_notes", "arguments": {}})
    async with (
        oidc(tmp_path / "data") as (oidc_app, token),
        oidc_app.raw(oidc_app.token("carol")) as wide,
        oidc_app.raw(token) as narrow,
    ):
        before = await wide.request(*call)
        refused, _ = await narrow.refused(*call)
        after = await wide.request(*call)

    assert not before["result"].get("isError")
    assert refused == 403
    assert not after["result"].get("isError")


async def test_two_clients_that_describe_themselves_alike_inherit_nothing_from_each_other(
    tmp_path: Path,
) -> None:
    async with (
        open_builtin_app(tmp_path / "data") as builtin_app,
        httpx2.AsyncClient(timeout=60) as http,
        builtin_app.person("alice") as alice,
    ):
        wide = await builtin_app.sign_in(alice, http, only=IN_ORDER)
        narrow = await builtin_app.sign_in(alice, http, only=[NARROW])
        async with builtin_app.raw(narrow["access_token"]) as client:
            refused, _ = await client.refused("tools/call", {"name": "nc_notes_list_notes", "arguments": {}})
            status = await client.request(
                "tools/call", {"name": "check_provisioning_status", "arguments": {}}
            )

    assert wide["client_id"] != narrow["client_id"]
    assert narrow["scope"] == NARROW
    assert refused == 403
    assert status["result"]["structuredContent"]["permissions"] == [NARROW]
