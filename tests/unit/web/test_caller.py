from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import TokenRefused
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web.caller import BearerUser, caller_of, scopes_of
from tests.sdk_request import request

ALICE = Principal("https://id.test", "alice")
READ = frozenset({"notes:read"})


def bearer(scopes: frozenset[str] | None = READ) -> Bearer:
    return Bearer(ALICE, "claude", scopes, 1000, {"sub": "alice"})


def context(user: object, *, name: str | None = None) -> ServerRequestContext[Any, Any]:
    return replace(
        request(name=name, capabilities={}), request=SimpleNamespace(scope={"user": user}, headers={})
    )


def test_the_sdk_binds_a_session_to_client_issuer_and_subject() -> None:
    assert authorization_context(BearerUser(bearer())) == {
        "client_id": "claude",
        "issuer": "https://id.test",
        "subject": "alice",
    }


def test_the_token_itself_is_not_kept() -> None:
    assert BearerUser(bearer()).access_token.token == ""


def test_the_caller_is_the_person_the_client_and_what_it_calls_itself() -> None:
    assert caller_of(context(BearerUser(bearer()), name="Claude")) == Caller(
        ALICE, "claude", "Claude", token_scopes=frozenset({"notes:read"})
    )


@pytest.mark.parametrize(
    "ctx",
    [
        request(),
        request(headers={}),
        context(None),
        context(AuthenticatedUser(AccessToken(token="t", client_id="claude", scopes=[], subject="alice"))),
    ],
)
def test_no_call_bypasses_the_verifier(ctx: ServerRequestContext[Any, Any]) -> None:
    with pytest.raises(TokenRefused):
        caller_of(ctx)
    assert scopes_of(ctx) == frozenset()


@pytest.mark.parametrize("scopes", [None, READ])
def test_the_scopes_are_those_of_the_token(scopes: frozenset[str] | None) -> None:
    assert scopes_of(context(BearerUser(bearer(scopes)))) == scopes
