"""Mode `oidc` from end to end: two users, their tokens, browsers, consents and notes."""

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp_types import CallToolResult

from nextcloud_mcp_server.sandbox.profile import NAMES
from nextcloud_mcp_server.settings.environment import child_environment
from nextcloud_mcp_server.storage.records import Principal
from tests.integration.oidc_app import OidcApp
from tests.integration.personal_app import Asked

LIST = "nc_notes_list_notes"
#: What the identity provider calls Alice.
SUBJECT = "u-7f3a"


def titles(result: CallToolResult) -> set[str]:
    assert not result.is_error, result.content
    content: dict[str, Any] = result.structured_content or {}
    return {note["title"] for note in content["notes"]}


@pytest.mark.parametrize("oidc_app", [{"sandbox_version": name} for name in NAMES], indirect=True)
async def test_two_people_consent_once_each_and_read_only_their_own_notes(oidc_app: OidcApp) -> None:
    async with oidc_app.person("alice") as alice, oidc_app.person("bob") as bob:
        alices, bobs = Asked(oidc_app).by(alice.consent), Asked(oidc_app).by(bob.consent)
        async with (
            oidc_app.client(oidc_app.token("alice"), elicitation_callback=alices) as hers,
            oidc_app.client(oidc_app.token("bob"), elicitation_callback=bobs) as his,
        ):
            her_notes = titles(await hers.call_tool(LIST, {}))
            his_notes = titles(await his.call_tool(LIST, {}))
            again = titles(await hers.call_tool(LIST, {}))

    assert her_notes == again
    assert her_notes.isdisjoint(his_notes)
    assert len(set(alices.urls)) == len(set(bobs.urls)) == 1
    assert "Alice Example" in alice.seen[-1].text


@pytest.mark.parametrize("oidc_app", [{"hold_seconds": 0}], indirect=True)
async def test_the_link_of_one_person_is_refused_to_another(oidc_app: OidcApp) -> None:
    url_mode: dict[str, Any] = {"elicitation": {"url": {}}}
    async with (
        oidc_app.person("bob") as bob,
        oidc_app.raw(oidc_app.token("alice"), capabilities=url_mode) as hers,
    ):
        answer = await hers.request("tools/call", {"name": LIST, "arguments": {}})
        link = answer["error"]["data"]["elicitations"][0]["url"]
        page = await bob.consent(link)
        again = await hers.request("tools/call", {"name": LIST, "arguments": {}})

    assert page.status == 403
    assert "another account" in page.text
    # An error that brought no answer is followed by the link in words.
    assert again["result"]["isError"]
    assert link in again["result"]["content"][0]["text"].splitlines()
    assert oidc_app.sandbox.state.oauth_grants == []


async def test_without_a_token_a_client_is_told_where_to_get_one(oidc_app: OidcApp) -> None:
    async with httpx2.AsyncClient() as http:
        refused = await http.post(f"{oidc_app.url}/mcp", json={})
        metadata = (await http.get(f"{oidc_app.url}/.well-known/oauth-protected-resource/mcp")).json()

    assert refused.status_code == 401
    assert "resource_metadata=" in refused.headers["WWW-Authenticate"]
    assert metadata["resource"] == f"{oidc_app.url}/mcp"
    assert metadata["authorization_servers"] == [oidc_app.issuer.url]


async def test_a_second_client_of_a_connected_user_needs_no_second_authorization_at_nextcloud(
    oidc_app: OidcApp,
) -> None:
    async with oidc_app.person("alice") as alice:
        asked = Asked(oidc_app).by(alice.consent)
        async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=asked) as first:
            await first.call_tool(LIST, {})
        before = len(alice.seen)
        other = oidc_app.token("alice", client_id="another-assistant")
        async with oidc_app.client(other, elicitation_callback=asked) as second:
            notes = titles(await second.call_tool(LIST, {}))

    assert notes
    assert len(set(asked.urls)) == 2
    assert not any(page.url.startswith(oidc_app.nextcloud_url) for page in alice.seen[before:])
    assert len(oidc_app.sandbox.state.oauth_grants) == 1


async def test_asking_for_the_status_asks_for_no_permission(oidc_app: OidcApp) -> None:
    async with oidc_app.person("alice") as alice:
        asked = Asked(oidc_app).by(alice.consent)
        async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=asked) as first:
            await first.call_tool(LIST, {})
        async with oidc_app.client(oidc_app.token("alice", client_id="another-assistant")) as second:
            status = await second.call_tool("check_provisioning_status", {})

    content: dict[str, Any] = status.structured_content or {}
    assert not status.is_error, status.content
    assert content["connected"]
    assert content["permissions"] == []
    assert "will ask the person first" in content["next_step"]


async def test_a_token_for_reading_shows_and_calls_no_tool_that_writes(oidc_app: OidcApp) -> None:
    token = oidc_app.token("alice", scope="openid notes:read")
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "nc_notes_create_note", "arguments": {"title": "x"}},
    }
    async with oidc_app.client(token) as client:
        shown = {tool.name for tool in (await client.list_tools()).tools}
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http:
        refused = await http.post(f"{oidc_app.url}/mcp", json=body)

    assert LIST in shown
    assert not any("write" in name or "create" in name for name in shown)
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in refused.headers["WWW-Authenticate"]
    assert 'scope="notes:read notes:write"' in refused.headers["WWW-Authenticate"]


async def test_an_access_token_that_runs_out_is_renewed_without_the_person(oidc_app: OidcApp) -> None:
    async with oidc_app.person("alice") as alice:
        asked = Asked(oidc_app).by(alice.consent)
        async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=asked) as client:
            await client.call_tool(LIST, {})
        oidc_app.clock.ahead += timedelta(hours=5)
        async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=asked) as client:
            notes = titles(await client.call_tool(LIST, {}))

    assert notes
    assert len(asked.urls) == 1


async def test_an_answer_for_another_person_is_refused_and_written_down_before_the_call_ends(
    oidc_app: OidcApp,
) -> None:
    assert oidc_app.parts is not None
    async with oidc_app.person("alice") as alice:
        asked = Asked(oidc_app).by(alice.consent)
        async with oidc_app.client(oidc_app.token("alice"), elicitation_callback=asked) as client:
            await client.call_tool(LIST, {})
            kept = oidc_app.sandbox.state.app_passwords
            kept.update({secret: replace(one, uid="bob") for secret, one in kept.items()})
            refused = await client.call_tool(LIST, {})
            written = (await oidc_app.parts.services.get()).database.audit
            [newest] = await written.recent(Principal(oidc_app.issuer.url, SUBJECT), 1)

    assert refused.is_error
    assert "another account" in str(refused.content)
    assert (newest.action, newest.result) == (LIST, "WrongAccount")


async def test_a_client_ends_its_own_access_and_no_others_and_its_next_call_asks_again(
    oidc_app: OidcApp,
) -> None:
    async with oidc_app.person("alice") as alice:
        asked = Asked(oidc_app).by(alice.consent)
        other = oidc_app.token("alice", client_id="another-assistant")
        async with (
            oidc_app.client(oidc_app.token("alice"), elicitation_callback=asked) as client,
            oidc_app.client(other, elicitation_callback=asked) as second,
        ):
            await client.call_tool(LIST, {})
            await second.call_tool(LIST, {})
            ended = await client.call_tool("revoke_nextcloud_access", {})
            notes = titles(await second.call_tool(LIST, {}))
            before = len(set(asked.urls))
            await client.call_tool(LIST, {})

    content: dict[str, Any] = ended.structured_content or {}
    assert f"{oidc_app.url}/account" in content["message"]
    assert notes
    assert len(oidc_app.sandbox.state.oauth_grants) == 1
    assert (before, len(set(asked.urls))) == (2, 3)


async def test_a_server_whose_identity_provider_is_none_stops_and_names_the_setting(
    oidc_app: OidcApp, tmp_path: Path
) -> None:
    variables = {
        "MODE": "oidc",
        "NEXTCLOUD_HOST": oidc_app.nextcloud_url,
        "NEXTCLOUD_MCP_SERVER_URL": "http://127.0.0.1:8765",
        "OIDC_ISSUER": oidc_app.nextcloud_url.replace("127.0.0.1", "localhost"),
        "OIDC_CLIENT_ID": "us",
        "OIDC_CLIENT_SECRET": "secret",
        "NEXTCLOUD_OAUTH_CLIENT_ID": "us",
        "NEXTCLOUD_OAUTH_CLIENT_SECRET": "secret",
        "TOKEN_ENCRYPTION_KEYS": oidc_app.key,
        "DATA_DIR": str(tmp_path / "other"),
    }

    with anyio.fail_after(60):
        ended = await anyio.run_process(
            [sys.executable, "-m", "nextcloud_mcp_server", "serve", "--port", "0"],
            env=child_environment(variables),
            check=False,
        )

    last = ended.stderr.decode().splitlines()[-1]
    assert ended.returncode == 2
    assert last.startswith("Error: OIDC_ISSUER: no metadata of an identity provider is found below")
