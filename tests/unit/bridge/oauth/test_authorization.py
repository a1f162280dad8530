"""The sign-in from a challenge to tokens, with the servers at the network and a browser that agrees."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.bridge.browser import UnsafeUrl
from nextcloud_mcp_server.bridge.oauth.authorization import Paste, SignIn, authorization_url, pkce
from nextcloud_mcp_server.bridge.oauth.challenge import Challenge
from nextcloud_mcp_server.bridge.oauth.discovery import AuthorizationServer
from nextcloud_mcp_server.bridge.oauth.grant import ClientIdentity, Grant
from nextcloud_mcp_server.errors import AuthorizationFailed
from tests.authorization_server_fake import (
    ISSUER,
    RESOURCE_METADATA,
    SERVER,
    FakeServers,
    described,
    target,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


async def sign_in(
    servers: FakeServers,
    *,
    known: Grant | None = None,
    more: Sequence[str] = (),
    paste: Paste | None = None,
    seconds: float = 20,
    scope: str | None = None,
    **configured: object,
) -> Grant:
    flow = SignIn(servers.network(), target(**configured), servers.browser(), lambda: NOW, paste, seconds)
    return await flow.run(Challenge(None, scope, RESOURCE_METADATA), known, more)


def query(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)


def test_a_challenge_is_the_one_of_the_specification() -> None:
    """RFC 7636, appendix B."""
    octets = [116, 24, 223, 180, 151, 153, 224, 37, 79, 250, 96, 125, 216, 173, 187, 186]
    octets += [22, 212, 37, 77, 105, 214, 191, 240, 91, 88, 5, 88, 83, 132, 141, 121]

    made = pkce(lambda count: bytes(octets[:count]))

    assert made.verifier == "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert made.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_a_verifier_has_43_characters_and_no_other_has_the_same() -> None:
    made = {pkce().verifier for _ in range(50)}

    assert len(made) == 50
    assert {len(one) for one in made} == {43}


def test_an_authorization_url_keeps_what_its_endpoint_has_already() -> None:
    server = AuthorizationServer(ISSUER, "https://as.example/authorize?tenant=a%20b&state=old#part", "")
    client = ClientIdentity(client_id="me", redirect_uri="http://127.0.0.1:5/callback")

    url = authorization_url(
        server, client, scopes=("read", "offline_access"), state="s", challenge="c", resource=SERVER
    )

    assert url.startswith("https://as.example/authorize?")
    assert "#" not in url
    assert query(url) == {
        "tenant": ["a b"],
        "response_type": ["code"],
        "client_id": ["me"],
        "redirect_uri": ["http://127.0.0.1:5/callback"],
        "state": ["s"],
        "code_challenge": ["c"],
        "code_challenge_method": ["S256"],
        "resource": [SERVER],
        "scope": ["read offline_access"],
        "prompt": ["consent"],
    }


async def test_a_user_signs_in_and_the_page_says_so() -> None:
    servers = FakeServers()

    grant = await sign_in(servers)

    assert grant.access_token.get_secret_value() == "access-1"
    assert (grant.issuer, grant.resource, grant.scope) == (ISSUER, SERVER, "read")
    assert grant.client.origin == "registered"
    asked = query(servers.opened[0])
    assert asked["redirect_uri"] == [grant.client.redirect_uri]
    assert asked["resource"] == [SERVER]
    assert "Signed in" in servers.leave()
    # The whole URL and its host, before it is opened.
    assert servers.opened[0] in servers.said[0]
    assert "at as.example" in servers.said[0]


@pytest.mark.parametrize(
    ("changed", "sentence", "on_page"),
    [
        ({"error": "access_denied", "code": ""}, "You did not allow the access", "You did not allow"),
        ({"error": "server_error", "code": ""}, r"refused the sign-in \(server_error\)", "server_error"),
        (
            {"error": "the-secret", "code": ""},
            r"refused the sign-in \(an unknown error\)",
            "an unknown error",
        ),
        ({"iss": "https://evil.example"}, "another authorization server", "another authorization server"),
        ({"iss": f"{ISSUER}/"}, "another authorization server", "another authorization server"),
        ({"code": "stolen"}, r"gave no token after the sign-in \(invalid_grant\)", "invalid_grant"),
    ],
)
async def test_an_answer_that_is_no_yes_is_told_on_the_page_and_in_the_terminal(
    changed: dict[str, str], sentence: str, on_page: str
) -> None:
    servers = FakeServers()
    servers.redirect = lambda back: {name: text for name, text in {**back, **changed}.items() if text}

    with pytest.raises(AuthorizationFailed, match=sentence):
        await sign_in(servers)

    assert on_page in servers.leave()
    assert "Not signed in" in servers.leave()
    assert servers.valid == {}


async def test_an_issuer_that_says_that_it_sends_its_name_must_send_it() -> None:
    servers = FakeServers(metadata=described(authorization_response_iss_parameter_supported=True))

    with pytest.raises(AuthorizationFailed, match="another authorization server"):
        await sign_in(servers)
    assert servers.forms("/token") == []

    servers.sends_issuer = True
    assert await sign_in(servers)


async def test_a_wrong_state_gets_no_token_and_the_wait_ends() -> None:
    servers = FakeServers()
    servers.redirect = lambda back: {**back, "state": "other"}

    with pytest.raises(AuthorizationFailed, match="An answer came, but to another sign-in"):
        await sign_in(servers, seconds=1)

    assert "does not belong" in servers.leave()
    assert servers.forms("/token") == []


@pytest.mark.parametrize(
    "endpoint",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://as.example/a",
        "https://as.example/$(id)",
        "xdg:run",
    ],
)
async def test_a_hostile_authorization_url_opens_nothing(endpoint: str) -> None:
    servers = FakeServers(metadata=described(authorization_endpoint=endpoint))

    with pytest.raises(UnsafeUrl):
        await sign_in(servers)

    assert (servers.opened, servers.said, servers.forms("/register")) == ([], [], [])


async def test_a_hostile_url_in_the_configuration_opens_nothing() -> None:
    servers = FakeServers()

    with pytest.raises(UnsafeUrl):
        await sign_in(
            servers,
            manual=True,
            client_id="me",
            authorization_url="http://as.example/a",
            token_url=f"{ISSUER}/token",
        )

    assert servers.opened == []


async def test_manual_needs_no_metadata() -> None:
    servers = FakeServers(resource=None, metadata={})

    grant = await sign_in(
        servers,
        manual=True,
        client_id="me",
        authorization_url=f"{ISSUER}/authorize",
        token_url=f"{ISSUER}/token",
        scopes=("read", "write"),
    )

    assert query(servers.opened[0])["scope"] == ["read write"]
    assert grant.client.client_id == "me"
    assert grant.scope == "read write"


async def test_more_scopes_are_asked_for_besides_the_usual_ones() -> None:
    servers = FakeServers()

    await sign_in(servers, more=("read", "write"), scope="admin")

    assert query(servers.opened[0])["scope"] == ["read write admin"]


async def test_a_registration_is_used_again_with_its_port() -> None:
    servers = FakeServers()
    first = await sign_in(servers)

    second = await sign_in(servers, known=first)

    assert second.client == first.client
    assert len(servers.forms("/register")) == 1


async def test_a_registration_whose_port_is_taken_is_replaced() -> None:
    servers = FakeServers()
    first = await sign_in(servers)

    async with await anyio.create_tcp_listener(
        local_host="127.0.0.1", local_port=urlsplit(first.client.redirect_uri).port or 0
    ):
        second = await sign_in(servers, known=first)

    assert second.client.client_id == "client-2"


async def test_credentials_are_not_shown_to_another_issuer() -> None:
    servers = FakeServers()
    first = await sign_in(servers)
    moved = first.model_copy(update={"issuer": "https://old.example"})

    second = await sign_in(servers, known=moved)

    assert second.client.client_id == "client-2"


@dataclass
class Lines(Paste):
    """A terminal with these lines."""

    waiting: list[str] = field(default_factory=list[str])

    async def line(self) -> str:
        if not self.waiting:
            await anyio.sleep_forever()
        return self.waiting.pop(0)


async def test_the_address_of_the_last_page_can_be_pasted() -> None:
    servers = FakeServers()
    lines = Lines()

    def visit(url: str) -> bool:
        asked = {name: texts[0] for name, texts in query(url).items()}
        servers.codes["pasted-code"] = asked
        # The browser of another computer finds nothing at its own 127.0.0.1.
        lines.waiting += ["what?\n", f"{asked['redirect_uri']}?code=x&state=other\n"]
        lines.waiting += [f" {asked['redirect_uri']}?code=pasted-code&state={asked['state']} \n"]
        return False

    servers.visit = visit  # type: ignore[method-assign]

    grant = await sign_in(servers, paste=lines)

    assert grant.access_token.get_secret_value() == "access-1"
    assert sum("does not belong to this sign-in" in text for text in servers.said) == 2
    assert not any("pasted-code" in text for text in servers.said)


async def test_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    servers = FakeServers()
    with caplog.at_level(logging.DEBUG, logger="nextcloud_mcp_server"):
        await sign_in(servers)
        servers.replies[f"{ISSUER}/token"] = httpx2.Response(400, json={"error": "invalid_grant"})
        with pytest.raises(AuthorizationFailed):
            await sign_in(servers)

    told = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("nextcloud"))
    assert not any(secret in told for secret in ("access-1", "refresh-1", "code-1", "code-2"))
