"""Each address in both spellings, by every method, in every mode of the server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.integration.builtin_app import open_builtin_app
from tests.integration.oidc_app import open_oidc_app
from tests.integration.personal_app import open_personal_app
from tests.load_cluster import move_in

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
#: The status of each method at the MCP endpoint: without an authorization, and with a valid one (and no session).
ENDPOINT = {
    "GET": (401, 400),
    "HEAD": (401, 405),
    "POST": (401, 200),
    "DELETE": (401, 400),
    "OPTIONS": (204, 204),
}
#: Every address that is there in some mode, pages and documents for programs alike.
ADDRESSES = (
    "/mcp",
    "/mcp/server-card",
    "/account",
    "/authorize",
    "/healthz",
    "/nothing-here",
    "/oauth/callback/nextcloud",
    "/oauth/callback/sign-in",
    "/oauth/provision",
    "/oauth/waiting",
    "/register",
    "/revoke",
    "/static/style.css",
    "/token",
    "/.well-known/ai-catalog.json",
    "/.well-known/jwks.json",
    "/.well-known/mcp.json",
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/mcp",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/mcp",
    "/mcp/.well-known/oauth-authorization-server",
    "/mcp/.well-known/openid-configuration",
)
#: What a request may get that another one does not.
OF_EACH = {"date", "content-length", "set-cookie", "mcp-session-id", "location"}


@dataclass(frozen=True)
class Served:
    """A server, and what it takes for an authorization."""

    url: str
    authorized: dict[str, str] = field(repr=False)


@asynccontextmanager
async def open_server(mode: str, folder: Path) -> AsyncGenerator[Served]:
    if mode == "personal":
        async with open_personal_app(folder, Sandbox.demo()) as personal_app:
            yield Served(personal_app.url, {"Authorization": f"Bearer {personal_app.secret}"})
    elif mode == "oidc":
        async with open_oidc_app(folder) as oidc_app:
            move_in(oidc_app.sandbox, oidc_app.issuer, "carol")
            yield Served(oidc_app.url, {"Authorization": f"Bearer {oidc_app.token('carol')}"})
    else:
        async with (
            open_builtin_app(folder) as builtin_app,
            builtin_app.person("alice") as alice,
            httpx2.AsyncClient() as http,
        ):
            token = (await builtin_app.sign_in(alice, http))["access_token"]
            yield Served(builtin_app.url, {"Authorization": f"Bearer {token}"})


@pytest.fixture(scope="module", params=["personal", "oidc", "builtin"])
async def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Served]:
    async with open_server(request.param, tmp_path_factory.mktemp("mode")) as made:
        yield made


@pytest.fixture
async def http(served: Served) -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=served.url, timeout=60) as client:
        yield client


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("method", ENDPOINT)
async def test_the_endpoint_answers_alike_in_both_spellings_and_in_every_mode(
    served: Served, http: httpx2.AsyncClient, method: str, path: str
) -> None:
    body = INITIALIZE if method == "POST" else None
    without = await http.request(method, path, headers=ACCEPT, json=body)
    with_one = await http.request(method, path, headers=ACCEPT | served.authorized, json=body)

    assert (without.status_code, with_one.status_code) == ENDPOINT[method]
    assert ("www-authenticate" in without.headers) == (without.status_code == 401)
    if with_one.status_code == 405:
        assert with_one.headers["Allow"] == "GET, POST, DELETE, OPTIONS"


def shown(answer: httpx2.Response) -> tuple[int, dict[str, str]]:
    headers = {name: value for name, value in answer.headers.items() if name not in OF_EACH}
    return answer.status_code, headers


@pytest.mark.parametrize("path", ADDRESSES)
async def test_a_slash_at_the_end_of_an_address_changes_nothing(
    served: Served, http: httpx2.AsyncClient, path: str
) -> None:
    different: dict[str, Any] = {}
    for method in METHODS:
        accept = {"Accept": "text/html"} if method == "GET" else ACCEPT
        headers = accept | (served.authorized if path == "/mcp" else {})
        both = [await http.request(method, spelling, headers=headers) for spelling in (path, f"{path}/")]
        if shown(both[0]) != shown(both[1]):
            different[method] = [shown(one) for one in both]

    assert different == {}


@pytest.mark.parametrize("path", ADDRESSES)
async def test_head_is_answered_like_get_or_refused_by_name(http: httpx2.AsyncClient, path: str) -> None:
    """RFC 9110 §9.3.2; a callback takes what it is sent once, and a preview must not use it up (§9.2.1)."""
    get, head = await http.get(path), await http.head(path)

    assert head.content == b""
    if head.status_code == 405:
        assert "HEAD" not in head.headers["Allow"]
    else:
        assert shown(head) == shown(get)


@pytest.mark.parametrize("path", ["/register", "/token"])
async def test_a_client_without_the_secret_of_one_persons_server_hears_which_header_it_is_for(
    http: httpx2.AsyncClient, path: str
) -> None:
    answer = await http.post(path, json={"redirect_uris": ["http://127.0.0.1:9/callback"]})
    metadata = await http.get("/.well-known/oauth-protected-resource")

    if metadata.status_code == 404:
        # One user's server: clients that do not have its secret look for a way to register.
        error = answer.json()
        assert (answer.status_code, error["error"]) == (403, "access_denied")
        assert "'Authorization: Bearer <secret>'" in error["error_description"]
    else:
        assert "Bearer <secret>" not in answer.text
