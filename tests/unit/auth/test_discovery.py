import logging

import httpx2
import pytest

from nextcloud_mcp_server.auth.discovery import Discovery, is_safe, refuse_pairwise
from nextcloud_mcp_server.errors import ConfigurationError, IssuerUnavailable
from tests.issuer_fixtures import ISSUER, IdentityProvider, Time, answering, silent

WELL_KNOWN = "/.well-known/openid-configuration"


async def test_metadata_is_read_and_kept_for_an_hour() -> None:
    provider, time = IdentityProvider(), Time()
    discovery = provider.discovery(time)

    found = await discovery.get()
    time.now += 3599
    await discovery.get()

    assert found.issuer == ISSUER
    assert found.jwks_uri == f"{ISSUER}/jwks"
    assert found.introspection_endpoint == f"{ISSUER}/introspect"
    assert found.revocation_endpoint is None
    assert found.code_challenge_methods == {"S256"}
    assert found.iss_parameter is True
    assert found.subject_types == {"public"}
    assert found.scopes == {"openid"}
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    ("issuer", "path"),
    [
        ("https://id.test/realms/a", "/realms/a/.well-known/openid-configuration"),
        ("https://id.test/realms/a", "/.well-known/oauth-authorization-server/realms/a"),
        ("https://id.test/realms/a", "/.well-known/openid-configuration/realms/a"),
        ("https://id.test/application/o/mcp/", "/application/o/mcp/.well-known/openid-configuration"),
        ("https://id.test", "/.well-known/oauth-authorization-server"),
    ],
)
async def test_every_well_known_form_is_looked_at(issuer: str, path: str) -> None:
    provider = IdentityProvider(issuer)
    provider.metadata |= {name: f"https://id.test/{name}" for name in ("token_endpoint", "jwks_uri")}
    provider.instead = {
        WELL_KNOWN: answering(404, json={}),
        path: answering(200, json=provider.metadata),
    }

    assert (await provider.discovery(Time()).get()).issuer == issuer


async def test_the_redirect_of_a_nextcloud_is_followed() -> None:
    provider = IdentityProvider()
    provider.instead = {
        WELL_KNOWN: answering(301, headers={"Location": f"{ISSUER}/index.php{WELL_KNOWN}"}),
        f"/index.php{WELL_KNOWN}": answering(200, json=provider.metadata),
    }

    assert (await provider.discovery(Time()).get()).token_endpoint == f"{ISSUER}/token"


@pytest.mark.parametrize("named", [f"{ISSUER}/", "https://ID.test", "https://elsewhere.test", None, ["x"]])
async def test_an_issuer_that_calls_itself_otherwise_is_refused(named: object) -> None:
    provider = IdentityProvider(metadata={"issuer": named})

    with pytest.raises(ConfigurationError, match="character by character"):
        await provider.discovery(Time()).get()


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "http://id.test/x",
        "javascript:alert(1)",
        "https://user:secret@id.test/x",
        "https://id.test/x#y",
        "https://[",
        "/jwks",
    ],
)
async def test_an_unusable_endpoint_is_refused(name: str, value: object) -> None:
    provider = IdentityProvider(metadata={name: value})

    with pytest.raises(ConfigurationError, match=name):
        await provider.discovery(Time()).get()


@pytest.mark.parametrize("value", ["https://169.254.169.254/jwks", "https://id.test:8443/jwks"])
async def test_an_endpoint_elsewhere_is_not_talked_to(value: str) -> None:
    provider = IdentityProvider(metadata={"jwks_uri": value})
    optional = IdentityProvider(metadata={"introspection_endpoint": value})

    with pytest.raises(ConfigurationError, match="its own origin"):
        await provider.discovery(Time()).get()
    assert (await optional.discovery(Time()).get()).introspection_endpoint is None


async def test_a_browser_may_be_sent_elsewhere() -> None:
    provider = IdentityProvider(metadata={"authorization_endpoint": "https://login.test/authorize"})

    assert (await provider.discovery(Time()).get()).authorization_endpoint == "https://login.test/authorize"


async def test_nothing_found_names_the_setting_and_the_statuses() -> None:
    provider = IdentityProvider(issuer="https://id.test/realm")
    provider.instead = {WELL_KNOWN + "/realm": answering(200, content=b"<html>")}

    with pytest.raises(ConfigurationError, match=r"OIDC_ISSUER.*404, 404, 200"):
        await provider.discovery(Time()).get()


async def test_a_start_waits_for_an_issuer_that_starts_too(caplog: pytest.LogCaptureFixture) -> None:
    provider, time = IdentityProvider(), Time()
    provider.instead = {WELL_KNOWN: silent}
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.now += seconds
        if len(slept) == 4:
            provider.instead = {}

    with caplog.at_level(logging.WARNING):
        found = await provider.discovery(time).ready(sleep=sleep)

    assert found.issuer == ISSUER
    assert slept == [2, 4, 8, 8]
    assert "Trying again" in caplog.text


async def test_a_start_does_not_wait_for_ever() -> None:
    provider, time = IdentityProvider(), Time()
    provider.instead = {WELL_KNOWN: answering(503)}

    async def sleep(seconds: float) -> None:
        time.now += seconds

    with pytest.raises(IssuerUnavailable) as caught:
        await provider.discovery(time).ready(sleep=sleep)

    assert caught.value.status == 503
    assert time.now <= 1060


async def test_a_start_fails_at_once_where_waiting_does_not_help() -> None:
    async def sleep(_: float) -> None:
        raise NotImplementedError

    async def nothing(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(404, json={})

    provider = IdentityProvider()
    provider.instead = {WELL_KNOWN: nothing}

    with pytest.raises(ConfigurationError):
        await provider.discovery(Time()).ready(sleep=sleep)


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://id.test/x", True),
        ("http://127.0.0.1:8080", True),
        ("http://127.8.8.8", True),
        ("http://[::1]:1", True),
        ("http://localhost:1", True),
        ("http://localhost.evil.test", False),
        ("http://10.0.0.1", False),
        ("http://id.test", False),
        ("https://", False),
        ("ftp://id.test", False),
    ],
)
def test_only_https_or_loopback_is_safe(url: str, *, safe: bool) -> None:
    assert is_safe(url) is safe


def test_discovery_asks_nothing_before_it_is_needed() -> None:
    provider = IdentityProvider()

    Discovery(ISSUER, provider.outgoing())

    assert provider.asked == []


async def test_an_issuer_with_pairwise_subjects_needs_another_claim() -> None:
    pairwise = (
        await IdentityProvider(metadata={"subject_types_supported": ["pairwise"]}).discovery(Time()).get()
    )
    both = (
        await IdentityProvider(metadata={"subject_types_supported": ["public", "pairwise"]})
        .discovery(Time())
        .get()
    )

    refuse_pairwise(pairwise, identity_claim="oid")
    refuse_pairwise(both, identity_claim="sub")
    with pytest.raises(ConfigurationError, match="OIDC_IDENTITY_CLAIM"):
        refuse_pairwise(pairwise, identity_claim="sub")
