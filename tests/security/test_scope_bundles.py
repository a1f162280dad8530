"""Attack: a coarse word such as `read` is used to get more than its user saw and allowed.

Clients are told to ask for little when they sign in, in one word, and for the rest when a call needs it.
What such a word stands for is decided when the user allows it: what is stored are the scopes.
"""

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server.auth.scopes import BUNDLES
from nextcloud_mcp_server.demo.wire_client import HandshakeClient
from tests.access_fields import choices_in, chosen_in
from tests.clients_fixtures import IN_ORDER
from tests.integration.builtin_app import CALLBACK, BuiltinApp, code_in, open_builtin_app
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.load_cluster import connect, move_in

LIST_NOTES: tuple[str, dict[str, Any]] = (
    "tools/call",
    {"name": "nc_notes_list_notes", "arguments": {}},
)
WRITE_NOTE: tuple[str, dict[str, Any]] = (
    "tools/call",
    {"name": "nc_notes_create_note", "arguments": {"title": "A", "content": "b"}},
)


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield client


async def allowed(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str, scope: str, *ticked: str
) -> dict[str, Any]:
    """Ask for scopes, have alice tick some, and take the tokens."""
    async with builtin_app.person("alice") as alice:
        url = builtin_app.authorize_url(client_id, scope=scope)
        back = await alice.sign_in(url, until=CALLBACK, only=ticked)
    tokens: dict[str, Any] = (await builtin_app.exchange_code(http, client_id, code_in(back))).json()
    return tokens


async def refreshed(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, client_id: str, tokens: dict[str, Any], scope: str
) -> dict[str, Any]:
    form = {
        "grant_type": "refresh_token",
        "client_id": client_id,
        "refresh_token": tokens["refresh_token"],
        "scope": scope,
    }
    answer: dict[str, Any] = (await http.post(f"{builtin_app.url}/token", data=form)).json()
    return answer


async def test_clients_are_told_to_ask_for_one_word_and_may_ask_for_two(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    challenge = (await http.post(f"{builtin_app.url}/mcp")).headers["WWW-Authenticate"]
    resource = (await http.get(f"{builtin_app.url}/.well-known/oauth-protected-resource/mcp")).json()
    server = (await http.get(f"{builtin_app.url}/.well-known/oauth-authorization-server")).json()

    assert 'scope="read"' in challenge
    assert resource["scopes_supported"] == ["read"]
    assert server["scopes_supported"] == ["read", "write"]


@pytest.mark.parametrize("scope", ["read", "notes:read files:read", "read write", None])
async def test_nothing_is_chosen_for_a_client_that_asks_as_every_client_is_told_to(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, scope: str | None
) -> None:
    client_id = (await builtin_app.register(http))["client_id"]

    page = (
        await http.get(builtin_app.authorize_url(client_id, scope=scope), headers={"Accept": "text/html"})
    ).text

    assert choices_in(page) == ["notes:read", "notes:change", "files:read", "files:change"]
    assert chosen_in(page) == []


async def test_a_bundle_shows_and_gives_what_its_scopes_would(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    client_id = (await builtin_app.register(http))["client_id"]

    pages = [
        (
            await http.get(builtin_app.authorize_url(client_id, scope=scope), headers={"Accept": "text/html"})
        ).text
        for scope in ("notes", "notes:write notes:read")
    ]
    tokens = await allowed(builtin_app, http, client_id, "notes", *IN_ORDER)

    for page in pages:
        assert choices_in(page) == ["notes:read", "notes:change"]
        assert chosen_in(page) == []
    assert tokens["scope"] == "notes:read notes:write"


async def test_the_rest_is_asked_for_by_the_call_that_needs_it(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    # Many clients register with the scope of the challenge.
    client_id = (await builtin_app.register(http, scope="read"))["client_id"]
    first = await allowed(builtin_app, http, client_id, "read", "notes:read")
    async with builtin_app.raw(first["access_token"]) as client:
        names = {one["name"] for one in (await client.request("tools/list", {}))["result"]["tools"]}
        refused, challenge = await client.refused(*WRITE_NOTE)
    second = await allowed(
        builtin_app, http, client_id, "notes:read notes:write", "notes:read", "notes:write"
    )
    async with builtin_app.raw(second["access_token"]) as client:
        written = await client.request(*WRITE_NOTE)

    assert first["scope"] == "notes:read"
    # Writing was not asked for yet; reading files was, and not allowed.
    assert "nc_notes_create_note" in names
    assert "nc_files_list_folder" not in names
    assert refused == 403
    assert 'scope="notes:read notes:write"' in challenge
    assert not written["result"].get("isError"), written


async def test_a_person_may_allow_writing_at_once_for_a_client_that_never_asks_again(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    client_id = (await builtin_app.register(http, scope="read"))["client_id"]

    tokens = await allowed(builtin_app, http, client_id, "read", "notes:read", "notes:write")

    assert tokens["scope"] == "notes:read notes:write"


async def test_a_refresh_narrows_by_bundles_and_never_widens(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient
) -> None:
    client_id = (await builtin_app.register(http))["client_id"]
    tokens = await allowed(builtin_app, http, client_id, "read write", "notes:read", "notes:write")

    wide = await refreshed(builtin_app, http, client_id, tokens, "read write files")
    narrow = await refreshed(builtin_app, http, client_id, wide, "read")
    none = await refreshed(builtin_app, http, client_id, narrow, "files")
    not_offered = await refreshed(builtin_app, http, client_id, narrow, "mail:read")

    assert wide["scope"] == "notes:read notes:write"
    assert narrow["scope"] == "notes:read"
    assert none["error"] == not_offered["error"] == "invalid_scope"


async def test_a_scope_that_joins_a_bundle_later_is_in_nothing_that_was_allowed_before(
    builtin_app: BuiltinApp, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_id = (await builtin_app.register(http))["client_id"]
    with monkeypatch.context() as before:
        before.setitem(BUNDLES, "read", BUNDLES["read"] - {"files:read"})
        tokens = await allowed(builtin_app, http, client_id, "read", "notes:read", "files:read")

    async with builtin_app.raw(tokens["access_token"]) as client:
        refused, _ = await client.refused(
            "tools/call", {"name": "nc_files_list_folder", "arguments": {"path": "/"}}
        )
    again = await refreshed(builtin_app, http, client_id, tokens, "read")

    # It was not on the page that asked for `read` then, whatever a form said.
    assert tokens["scope"] == "notes:read"
    assert refused == 403
    assert again["scope"] == "notes:read"


@pytest.fixture
async def oidc_app(tmp_path: Path) -> AsyncGenerator[OidcApp]:
    """Serve an identity provider that knows two words; carol's client may do everything."""
    async with open_oidc_app(tmp_path / "data", sign_in_scopes="read,write") as opened:
        move_in(opened.sandbox, opened.issuer, "carol")
        assert opened.parts is not None
        database = (await opened.parts.services.get()).database
        await connect(("carol",), database, opened.sandbox, opened.issuer, opened.nextcloud_url)
        yield opened


async def test_an_identity_provider_that_knows_bundles_is_asked_for_nothing_else(
    oidc_app: OidcApp, http: httpx2.AsyncClient
) -> None:
    resource = (await http.get(f"{oidc_app.url}/.well-known/oauth-protected-resource/mcp")).json()
    async with oidc_app.raw(oidc_app.token("carol", scope="openid read")) as client:
        read = await client.request(*LIST_NOTES)
        refused, challenge = await client.refused(*WRITE_NOTE)
    async with oidc_app.raw(oidc_app.token("carol", scope="openid read write")) as client:
        written = await client.request(*WRITE_NOTE)

    assert resource["scopes_supported"] == ["read", "write"]
    assert not read["result"].get("isError"), read
    assert (refused, 'scope="read write"' in challenge) == (403, True)
    assert not written["result"].get("isError"), written


async def test_an_assistant_may_ask_for_a_bundle_and_its_person_is_asked_for_its_scopes(
    oidc_app: OidcApp,
) -> None:
    async def asked(client: HandshakeClient, *permissions: str) -> str:
        call = {"name": "request_nextcloud_access", "arguments": {"permissions": permissions}}
        return str((await client.request("tools/call", call))["result"])

    async with oidc_app.raw(oidc_app.token("carol", client_id="other", scope="read write")) as client:
        unknown = await asked(client, "notes", "everything")
        missing = await asked(client, "mail")
        overrides = await asked(client, "mail:read")
        notes = await asked(client, "notes")

    assert oidc_app.parts is not None
    database = (await oidc_app.parts.services.get()).database
    link = re.search(r"elicitationId=([\w-]+)", notes)
    assert link is not None
    consent_request = await database.elicitations.find(link[1])
    assert "There is no permission 'everything'" in unknown
    # A bundle is what there is of it here.
    assert "There is no permission 'mail'. This server offers: files:read, files:write, notes" in missing
    assert "settings do not allow mail:read" in overrides
    assert consent_request is not None
    assert consent_request.scopes == {"notes:read", "notes:write"}


async def test_a_token_with_a_bundle_gets_no_more_than_its_person_allowed(oidc_app: OidcApp) -> None:
    async with oidc_app.raw(oidc_app.token("carol", client_id="other", scope="openid read write")) as client:
        asked = await client.request(*LIST_NOTES)

    # Another client of the same user, to which nothing was allowed: she is asked, with a token for everything.
    assert asked["result"]["isError"]
    assert "elicitationId" in str(asked)
