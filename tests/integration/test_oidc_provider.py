"""The issuer of others does what ours is made to do; what our server makes of it is tested elsewhere."""

import base64
import hashlib
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from nextcloud_mcp_server.auth.discovery import Discovery
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.auth.verifier import Verifier, VerifierConfig
from nextcloud_mcp_server.errors import TokenRefused
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.storage.records import Principal
from tests.integration.oidc_provider import login_client, mcp_client, open_oidc_provider

MCP = "http://127.0.0.1:8000/mcp"
CALLBACK = "http://127.0.0.1:54321/callback"
SIGN_IN = "http://127.0.0.1:8000/oauth/callback/sign-in"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
PKCE = {"response_type": "code", "code_challenge": CHALLENGE, "code_challenge_method": "S256", "state": "s"}


@pytest.mark.parametrize(("name", "subject"), [("alice", "u-7f3a"), ("bob", "u-c912")])
async def test_a_person_signs_in_and_their_client_gets_tokens_for_our_server_alone(
    name: str, subject: str
) -> None:
    clients = [mcp_client("assistant"), login_client("server", "s" * 32, [SIGN_IN])]
    async with (
        open_oidc_provider(clients, resources=[MCP], scopes=["notes:read"]) as issuer,
        httpx2.AsyncClient(timeout=60) as browser,
        httpx2.AsyncClient(timeout=60) as program,
    ):
        metadata = (await program.get(f"{issuer}/.well-known/openid-configuration")).json()
        asked = {
            **PKCE,
            "client_id": "assistant",
            "redirect_uri": CALLBACK,
            "scope": "openid offline_access notes:read",
            "prompt": "consent",
            "resource": MCP,
        }

        back = await Person(name, name, browser=browser).sign_in(
            f"{metadata['authorization_endpoint']}?{urlencode(asked)}", until=CALLBACK
        )

        told = {key: values[0] for key, values in parse_qs(urlsplit(back).query).items()}
        form = {
            "grant_type": "authorization_code",
            "code": told["code"],
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
            "client_id": "assistant",
            "resource": MCP,
        }
        tokens = (await program.post(metadata["token_endpoint"], data=form)).json()
        again = {
            "grant_type": "refresh_token",
            "refresh_token": tokens["refresh_token"],
            "client_id": "assistant",
        }
        renewed = (await program.post(metadata["token_endpoint"], data=again | {"resource": MCP})).json()
        outgoing = Outgoing(program)
        discovery = Discovery(issuer, outgoing)
        keys = KeySet(discovery, outgoing)
        verifier = Verifier(VerifierConfig(MCP), {issuer: keys}, clock=lambda: datetime.now(UTC))
        bearers = [await verifier.verify(one["access_token"]) for one in (tokens, renewed)]
        with pytest.raises(TokenRefused):
            await verifier.verify(tokens["id_token"])

    assert (told["iss"], told["state"]) == (issuer, "s")
    assert [one.principal for one in bearers] == [Principal(issuer, subject)] * 2
    assert [(one.client_id, one.scopes) for one in bearers] == [("assistant", frozenset({"notes:read"}))] * 2
    assert renewed["refresh_token"] != tokens["refresh_token"]
