"""What the doctor finds where this server gives clients their tokens."""

import socket
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.commands.doctor.builtin import look_at_discovery
from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict
from nextcloud_mcp_server.commands.doctor.oidc import look_at_grants, look_at_own_address
from nextcloud_mcp_server.settings.environment import Settings, load
from tests.integration.builtin_app import BuiltinApp, open_builtin_app

URL = "https://1.1.1.1"
Handler = Callable[[httpx2.Request], httpx2.Response]


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path / "data") as opened:
        yield opened


def settings(url: str = URL) -> Settings:
    return load(
        mode="builtin",
        nextcloud_host="https://cloud.example.org",
        nextcloud_mcp_server_url=url,
        token_encryption_keys="a-key",
        nextcloud_oauth_client_id="a",
        nextcloud_oauth_client_secret="b",
    )


def as_it_should_be(request: httpx2.Request) -> httpx2.Response:
    """Answer as the server at URL does."""
    path = request.url.path
    if path == "/mcp":
        found = f'Bearer resource_metadata="{URL}/.well-known/oauth-protected-resource/mcp"'
        return httpx2.Response(401, headers={"WWW-Authenticate": found})
    if path.endswith("/oauth-protected-resource/mcp"):
        return httpx2.Response(200, json={"resource": f"{URL}/mcp", "authorization_servers": [URL]})
    endpoints = {"authorization_endpoint": f"{URL}/authorize", "token_endpoint": f"{URL}/token"}
    return httpx2.Response(200, json={"issuer": URL, **endpoints})


def but(path: str, answer: httpx2.Response | httpx2.HTTPError) -> Handler:
    """Answer the same, but for one path."""

    def handler(request: httpx2.Request) -> httpx2.Response:
        if request.url.path not in {path, f"/.well-known{path}"}:
            return as_it_should_be(request)
        if isinstance(answer, httpx2.HTTPError):
            raise answer
        return answer

    return handler


async def findings(handler: Handler, url: str = URL) -> dict[str, Finding]:
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(handler)) as pool:
        return {found.topic: found for found in await look_at_discovery(settings(url), pool)}


async def test_a_running_server_is_found_by_clients_and_known_to_nextcloud(builtin_app: BuiltinApp) -> None:
    assert builtin_app.config
    async with httpx2.AsyncClient() as pool:
        (client,) = await look_at_grants(builtin_app.config, pool)
        own = await look_at_own_address(builtin_app.config, pool)
        hosted, discovery, first = await look_at_discovery(builtin_app.config, pool)

    assert [one.verdict for one in (client, own, discovery, first)] == [Verdict.OK] * 4
    assert hosted.verdict is Verdict.WARN
    assert "is not https on port 443" in hosted.text


async def test_a_server_that_was_not_started_is_said_to_be_silent(builtin_app: BuiltinApp) -> None:
    assert builtin_app.config
    await builtin_app.stop()
    async with httpx2.AsyncClient() as pool:
        _, discovery, first = await look_at_discovery(builtin_app.config, pool)

    assert (discovery.verdict, first.verdict) == (Verdict.WARN, Verdict.WARN)
    assert "start the server, and have the reverse proxy send every path" in discovery.text


async def test_all_is_well_at_a_public_address() -> None:
    found = await findings(as_it_should_be)

    assert {one.verdict for one in found.values()} == {Verdict.OK}


@pytest.mark.parametrize(
    ("url", "verdict", "sentence"),
    [
        ("https://localhost", Verdict.WARN, "localhost has an address of a private network here"),
        ("https://nowhere.invalid", Verdict.FAIL, "the name nowhere.invalid is not known"),
        ("https://[2606:4700:4700::1111]", Verdict.WARN, "has no IPv4 address, which Claude needs"),
        ("https://1.1.1.1:8443", Verdict.WARN, "is not https on port 443"),
    ],
)
async def test_what_keeps_hosted_clients_away_is_named(
    url: str, verdict: Verdict, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def look_up(host: str, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as the library has it
        """Answer as a server of names does, which may be far away or silent."""
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    with anyio.fail_after(60):
        found = (await findings(as_it_should_be, url))["hosted clients"]

    assert found.verdict is verdict
    assert sentence in found.text


@pytest.mark.parametrize(
    ("path", "answer", "sentence"),
    [
        (
            "/oauth-authorization-server",
            {"issuer": "https://other.example.org"},
            "`issuer` is 'https://other.example.org', and it is 'https://1.1.1.1' here",
        ),
        (
            "/openid-configuration",
            {"issuer": URL, "authorization_endpoint": "http://1.1.1.1/authorize"},
            "`authorization_endpoint` is 'http://1.1.1.1/authorize'",
        ),
        (
            "/oauth-protected-resource/mcp",
            {"resource": f"{URL}/mcp", "authorization_servers": ["https://id.example.org"]},
            "`authorization_servers` is ['https://id.example.org']",
        ),
    ],
)
async def test_metadata_that_clients_would_refuse_is_named(
    path: str, answer: dict[str, object], sentence: str
) -> None:
    found = (await findings(but(path, httpx2.Response(200, json=answer))))["discovery"]

    assert found.verdict is Verdict.FAIL
    assert sentence in found.text


@pytest.mark.parametrize(
    "path", ["/oauth-authorization-server", "/openid-configuration", "/oauth-protected-resource/mcp"]
)
async def test_a_path_that_the_proxy_keeps_to_itself_is_named(path: str) -> None:
    found = (await findings(but(path, httpx2.Response(200, html="<p>Hello</p>"))))["discovery"]

    assert found.verdict is Verdict.WARN
    assert path in found.text


@pytest.mark.parametrize(
    ("answer", "verdict", "sentence"),
    [
        (httpx2.ConnectError("no"), Verdict.WARN, "does not answer from here"),
        (httpx2.Response(404), Verdict.FAIL, "answers a call without a token with 404 in place of 401"),
        (httpx2.Response(401), Verdict.FAIL, "pass the header WWW-Authenticate on as it is"),
        (
            httpx2.Response(401, headers={"WWW-Authenticate": 'Basic realm="proxy"'}),
            Verdict.FAIL,
            "does not say where to sign in",
        ),
    ],
)
async def test_a_first_call_that_leads_nowhere_is_named(
    answer: httpx2.Response | httpx2.HTTPError, verdict: Verdict, sentence: str
) -> None:
    found = (await findings(but("/mcp", answer)))["first call"]

    assert found.verdict is verdict
    assert sentence in found.text
