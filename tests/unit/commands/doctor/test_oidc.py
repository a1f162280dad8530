import json
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from nextcloud_mcp_server.commands.doctor.builtin import look_at_discovery
from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict
from nextcloud_mcp_server.commands.doctor.oidc import look_at_grants, look_at_own_address, look_at_sign_in
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.settings.environment import Settings, load
from tests.issuer_fixtures import ISSUER, Handler, IdentityProvider, answering, public_jwk, rsa_key, silent

pytestmark = pytest.mark.usefixtures("own_data_dir")

CLOUD = "http://127.0.0.1:8080"
MCP = "https://mcp.test"
SIGN_IN = f"{MCP}/oauth/callback/sign-in"
GRANT = f"{MCP}/oauth/callback/nextcloud"

Answer = Callable[[httpx2.Request], httpx2.Response]


def settings(**overrides: object) -> Settings:
    usual: dict[str, object] = {
        "mode": "oidc",
        "nextcloud_host": CLOUD,
        "nextcloud_mcp_server_url": MCP,
        "token_encryption_keys": "a-key",
        "oidc_issuer": ISSUER,
        "oidc_client_id": "nextcloud-mcp",
        "oidc_client_secret": "a-secret",
        "nextcloud_oauth_client_id": "at-nextcloud",
        "nextcloud_oauth_client_secret": "another-secret",
    }
    return load(**(usual | overrides))


async def sends_back(request: httpx2.Request, error: str = "login_required") -> httpx2.Response:
    """Answer as an issuer that knows the client, and no one who is signed in."""
    query = request.url.params
    return httpx2.Response(302, headers={"Location": f"{query['redirect_uri']}?error={error}&state=doctor"})


async def untrusted(request: httpx2.Request) -> httpx2.Response:
    """Fail as a connection to a host does whose certificate no known authority signed."""
    raise httpx2.ConnectError(
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:992)",
        request=request,
    )


def pool(handler: Callable[..., object]) -> httpx2.AsyncClient:
    transport = httpx2.MockTransport(handler)  # type: ignore[arg-type]
    return open_pool(ca_bundle=None, user_agent="doctor", transport=transport)


async def examined(provider: IdentityProvider, **overrides: object) -> dict[str, Finding]:
    provider.instead.setdefault("/authorize", sends_back)
    async with pool(provider) as there:
        found = await look_at_sign_in(settings(**overrides), there)
    return {finding.topic: finding for finding in found}


async def test_a_healthy_identity_provider_passes_every_check() -> None:
    provider = IdentityProvider(metadata={"scopes_supported": []})

    found = await examined(provider, account_mapping="preferred_username")

    assert {finding.verdict for finding in found.values()} == {Verdict.OK}
    assert set(found) == {
        "identity provider",
        "PKCE",
        "identity",
        "accounts",
        "signing keys",
        "scopes",
        "opaque tokens",
        "sign-in client",
    }


async def test_a_claim_is_advised_where_users_name_their_account_themselves() -> None:
    found = await examined(IdentityProvider(), account_mapping="confirm")

    assert found["accounts"].verdict is Verdict.WARN
    assert "set ACCOUNT_MAPPING to the claim" in found["accounts"].text


async def test_the_client_is_tried_without_a_token_request_and_with_what_a_browser_sends() -> None:
    provider = IdentityProvider()

    await examined(provider)

    (asked,) = [request for request in provider.asked if request.url.path == "/authorize"]
    query = {name: values[0] for name, values in parse_qs(urlsplit(str(asked.url)).query).items()}
    assert provider.count("/token") == 0
    assert query["prompt"] == "none"
    assert (query["client_id"], query["redirect_uri"]) == ("nextcloud-mcp", SIGN_IN)
    assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"issuer": f"{ISSUER}/"}, "must be the same, character by character"),
        ({"token_endpoint": "http://id.test/token"}, "no usable token_endpoint"),
    ],
)
async def test_an_issuer_that_is_not_the_configured_one_ends_the_report(
    metadata: dict[str, object], sentence: str
) -> None:
    found = await examined(IdentityProvider(metadata=metadata))

    assert [finding.verdict for finding in found.values()] == [Verdict.FAIL]
    assert sentence in found["identity provider"].text


async def test_an_issuer_that_is_away_ends_the_report() -> None:
    found = await examined(IdentityProvider(instead={"/.well-known/openid-configuration": silent}))

    assert [finding.verdict for finding in found.values()] == [Verdict.FAIL]
    assert f"Check that {ISSUER} (OIDC_ISSUER) is right and runs" in found["identity provider"].text


@pytest.mark.parametrize(
    ("metadata", "overrides", "topic", "verdict", "sentence"),
    [
        ({"code_challenge_methods_supported": ["plain"]}, {}, "PKCE", Verdict.FAIL, "allow S256"),
        ({"code_challenge_methods_supported": []}, {}, "PKCE", Verdict.WARN, "does not say"),
        ({"subject_types_supported": ["pairwise"]}, {}, "identity", Verdict.FAIL, "set OIDC_IDENTITY_CLAIM"),
        (
            {"subject_types_supported": ["pairwise"]},
            {"oidc_identity_claim": "oid"},
            "identity",
            Verdict.OK,
            "told apart by oid",
        ),
        (
            {"subject_types_supported": ["public", "pairwise"]},
            {},
            "identity",
            Verdict.WARN,
            "choose public subjects",
        ),
        (
            {"scopes_supported": ["openid", "notes:read"]},
            {},
            "scopes",
            Verdict.WARN,
            "does not list files:read, files:write, notes:write",
        ),
        (
            {"scopes_supported": ["openid"]},
            {"token_scopes": "ignore"},
            "scopes",
            Verdict.OK,
            "what each user allows decides",
        ),
        (
            {"scopes_supported": ["openid"]},
            {"scope_prefix": "api://mcp/"},
            "scopes",
            Verdict.WARN,
            "api://mcp/notes:read",
        ),
        (
            {"scopes_supported": ["openid"]},
            {"grant_provider": "oidc_refresh"},
            "scopes",
            Verdict.WARN,
            "does not list offline_access",
        ),
        ({"introspection_endpoint": None}, {}, "opaque tokens", Verdict.OK, "refused"),
    ],
)
async def test_what_does_not_fit_is_named_with_what_to_do(
    metadata: dict[str, object], overrides: dict[str, object], topic: str, verdict: Verdict, sentence: str
) -> None:
    found = await examined(IdentityProvider(metadata=metadata), **overrides)

    assert found[topic].verdict is verdict
    assert sentence in found[topic].text


@pytest.mark.parametrize(
    "keys",
    [
        [],
        ["no key"],
        [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}],
        [{"kty": "RSA", "kid": 7}],
        [{"kty": ["RSA"], "kid": "one", "alg": ["RS256"]}],
        [public_jwk(rsa_key("weak", 1024), kid="one")],
        [public_jwk(rsa_key(), kid="one", use="enc")],
    ],
)
async def test_an_issuer_without_a_key_that_can_be_used_fails(keys: list[object]) -> None:
    found = await examined(IdentityProvider(keys=keys))

    assert found["signing keys"].verdict is Verdict.FAIL
    assert "RS256" in found["signing keys"].text


async def test_a_key_that_names_no_algorithm_is_usable() -> None:
    found = await examined(IdentityProvider(keys=[public_jwk(rsa_key(), kid="one")]))

    assert found["signing keys"].text == "1 usable"


@pytest.mark.parametrize("answer", [silent, answering(200, json={"keys": "none"}), answering(503)])
async def test_keys_that_cannot_be_fetched_fail(answer: Handler) -> None:
    found = await examined(IdentityProvider(instead={"/jwks": answer}))

    assert found["signing keys"].verdict is Verdict.FAIL


async def wrong_flow(request: httpx2.Request) -> httpx2.Response:
    return await sends_back(request, "unauthorized_client")


@pytest.mark.parametrize(
    ("answer", "verdict", "sentence"),
    [
        (answering(400, text="Invalid parameter: redirect_uri"), Verdict.FAIL, f"register {SIGN_IN} as"),
        (answering(302, headers={"Location": "/login"}), Verdict.OK, "goes on to its sign-in"),
        (answering(302, headers={"Location": "/oops?error=bad"}), Verdict.WARN, "does not say"),
        (answering(200, html="Unknown client"), Verdict.WARN, "does not say whether it knows it"),
        (wrong_flow, Verdict.WARN, "'unauthorized_client': allow it the authorization code flow"),
        (silent, Verdict.WARN, "did not answer"),
    ],
)
async def test_a_client_that_the_issuer_does_not_know_is_found(
    answer: Handler, verdict: Verdict, sentence: str
) -> None:
    found = await examined(IdentityProvider(instead={"/authorize": answer}))

    assert found["sign-in client"].verdict is verdict
    assert sentence in found["sign-in client"].text


async def at_nextcloud(sandbox: Sandbox, **overrides: object) -> dict[str, Finding]:
    transport = httpx2.ASGITransport(sandbox.app)
    async with open_pool(ca_bundle=None, user_agent="doctor", transport=transport) as there:
        found = await look_at_grants(settings(**overrides), there)
    return {finding.topic: finding for finding in found}


async def test_a_client_that_nextcloud_knows_with_our_address_is_well() -> None:
    sandbox = Sandbox.demo()
    client = sandbox.state.new_oauth_client("Nextcloud MCP server at mcp.test", GRANT)

    found = await at_nextcloud(sandbox, nextcloud_oauth_client_id=client.client_id)

    assert found["OAuth2 client"].verdict is Verdict.OK


async def test_a_client_registered_for_another_address_is_found_without_a_failed_token_request() -> None:
    sandbox = Sandbox.demo()
    client = sandbox.state.new_oauth_client(
        "Nextcloud MCP server", "https://old.test/oauth/callback/nextcloud"
    )

    found = await at_nextcloud(sandbox, nextcloud_oauth_client_id=client.client_id)

    assert found["OAuth2 client"].verdict is Verdict.FAIL
    assert (
        "registered at Nextcloud for https://old.test/oauth/callback/nextcloud" in found["OAuth2 client"].text
    )
    assert sandbox.token_throttle.delay_ms("127.0.0.1") == 0


async def test_a_client_that_nextcloud_does_not_know_is_found() -> None:
    found = await at_nextcloud(Sandbox.demo())

    assert found["OAuth2 client"].verdict is Verdict.FAIL
    assert "run 'nextcloud-mcp-server setup nextcloud'" in found["OAuth2 client"].text


async def test_a_nextcloud_that_is_away_is_a_failure() -> None:
    async with pool(silent) as there:
        (found,) = await look_at_grants(settings(), there)

    assert found.verdict is Verdict.FAIL


async def test_without_a_client_of_nextcloud_s_own_none_is_looked_for() -> None:
    found = await at_nextcloud(Sandbox.demo(), grant_provider="oidc_refresh")

    assert found == {}


async def test_the_public_address_must_be_a_nextcloud_too() -> None:
    public = {"nextcloud_public_url": "https://cloud.test", "grant_provider": "oidc_refresh"}

    well = await at_nextcloud(Sandbox.demo(), **public)
    async with pool(silent) as there:
        (away,) = await look_at_grants(settings(**public), there)

    assert well["public address"].verdict is Verdict.OK
    assert away.verdict is Verdict.WARN
    assert "https://cloud.test" in away.text


@pytest.mark.parametrize(
    ("answer", "verdict", "sentence"),
    [
        (answering(200, content=json.dumps({"status": "ok"})), Verdict.OK, "leads to this server"),
        (answering(421), Verdict.FAIL, "must pass the Host header on"),
        (answering(502), Verdict.FAIL, "check where the reverse proxy sends it"),
        (answering(200, html="Welcome to nginx"), Verdict.FAIL, "check where the reverse proxy sends it"),
        (silent, Verdict.WARN, "does not answer from here"),
        (untrusted, Verdict.WARN, "is not trusted here"),
    ],
)
async def test_our_own_address_is_tried_from_outside(
    answer: Handler, verdict: Verdict, sentence: str
) -> None:
    async with pool(answer) as there:
        found = await look_at_own_address(settings(), there)

    assert found.verdict is verdict
    assert sentence in found.text


async def test_a_certificate_that_is_not_trusted_is_named_in_every_line_about_the_address() -> None:
    """The server runs: the advice to start it would lead nowhere."""
    async with pool(untrusted) as there:
        found = await look_at_discovery(settings(mode="builtin"), there)

    silent = [finding.text for finding in found if finding.topic in ("discovery", "first call")]
    assert len(silent) == 2
    assert all("is not trusted here" in text and "start the server" not in text for text in silent)
