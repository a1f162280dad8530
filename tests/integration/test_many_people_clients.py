"""Mode `oidc` with clients that can show less, or track more, than the SDK's."""

from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server.demo.wire_client import (
    DRAFT_EXTENSION,
    HandshakeClient,
    StatelessClient,
    WireClient,
)
from tests.integration.oidc_app import OidcApp
from tests.integration.personal_app import link_in

LIST: dict[str, Any] = {"name": "nc_notes_list_notes", "arguments": {}}
DRAFT: dict[str, Any] = {"extensions": {DRAFT_EXTENSION: {}}}


@pytest.mark.parametrize("kind", [HandshakeClient, StatelessClient])
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"form": {}}}], ids=["nothing", "forms"])
async def test_a_client_that_shows_no_links_is_told_in_words(
    oidc_app: OidcApp, kind: type[WireClient], capabilities: dict[str, Any]
) -> None:
    headers = {"Authorization": f"Bearer {oidc_app.token('alice')}"}
    async with oidc_app.person("alice") as alice, httpx2.AsyncClient(headers=headers, timeout=60) as http:
        client = kind(http, f"{oidc_app.url}/mcp", capabilities=capabilities)
        await client.open()
        told = (await client.request("tools/call", LIST))["result"]
        link = link_in(told["content"][0]["text"])
        page = await alice.consent(link)
        result = (await client.request("tools/call", LIST))["result"]

    assert told["isError"] is True
    assert link.startswith(f"{oidc_app.url}/oauth/provision?elicitationId=")
    assert page.status == 200
    assert "Shopping list" in str(result["structuredContent"])


async def test_a_draft_client_tracks_its_own_persons_consent_request_and_no_other(oidc_app: OidcApp) -> None:
    async with (
        oidc_app.person("alice") as alice,
        oidc_app.raw(oidc_app.token("alice"), capabilities=DRAFT) as hers,
        oidc_app.raw(oidc_app.token("bob"), capabilities=DRAFT) as his,
    ):
        refused = (await hers.request("tools/call", LIST))["error"]
        consent_request = refused["data"]["elicitations"][0]
        track = {"elicitationId": consent_request["elicitationId"]}
        before = (await his.request("elicitation/track", track))["error"]
        oidc_app.consent_request(alice.consent, consent_request["url"])
        tracked = (await hers.request("elicitation/track", track))["result"]
        after = (await his.request("elicitation/track", track))["error"]
        result = (await hers.request("tools/call", LIST))["result"]

    assert refused["code"] == -32000
    assert before == after == {"code": -32602, "message": "No such elicitation"}
    assert tracked == {"status": "complete"}
    assert "Shopping list" in str(result["structuredContent"])
