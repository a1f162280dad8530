from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.oidc_refresh import OidcRefresh
from nextcloud_mcp_server.auth.consent.provider import ExchangeResult, Note, OrphanedTokens
from nextcloud_mcp_server.auth.discovery import Discovery
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.oauth_client import OAuthClient, new_secret
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.errors import (
    CredentialRejected,
    GrantDead,
    GrantRefused,
    NextcloudError,
    Throttled,
    Unavailable,
)
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.issuer import Issuer
from nextcloud_mcp_server.sandbox.request_log import RequestRecord
from nextcloud_mcp_server.storage.records import Principal, Tokens
from tests.auth_fixtures import NEXTCLOUD, ProcessHost
from tests.oauth_fixtures import REDIRECT

CLIENT = "nextcloud-mcp"
SECRET = SecretStr("the client's secret")
ALICE = "u-7f3a"

Answer = Callable[[httpx2.Request], httpx2.Response | None]


@dataclass
class Way(httpx2.AsyncBaseTransport):
    """The way to the identity provider, beside the one to Nextcloud; a test may answer in its place."""

    harness: ProcessHost
    issuer: Issuer
    instead: Answer | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if not self.issuer.url.endswith(request.url.host):
            return await self.harness.network.handle_async_request(request)
        if self.instead is not None and (answer := self.instead(request)) is not None:
            return answer
        return await httpx2.ASGITransport(self.issuer.app).handle_async_request(request)


@dataclass
class OidcFixture:
    """A provider, and a browser that goes there and back."""

    harness: ProcessHost
    issuer: Issuer
    way: Way
    pool: httpx2.AsyncClient

    def provider(self, *, resource: str | None = "nextcloud", **changes: str) -> OidcRefresh:
        outgoing = Outgoing(self.pool)
        discovery = Discovery(self.issuer.url, outgoing, monotonic=self.harness.clock.seconds)
        return OidcRefresh(
            Nextcloud(NextcloudUrl.parse(NEXTCLOUD), self.pool),
            discovery=discovery,
            keyset=KeySet(discovery, outgoing, monotonic=self.harness.clock.seconds),
            outgoing=outgoing,
            client=OAuthClient(CLIENT, SECRET),
            redirect_uri=REDIRECT,
            clock=self.harness.clock,
            resource=resource,
            **changes,
        )

    async def confirm(self, url: str, name: str = "alice") -> dict[str, str]:
        """Sign in and come back; the answer is the callback's query."""
        transport = httpx2.ASGITransport(self.issuer.app)
        async with httpx2.AsyncClient(transport=transport, base_url=self.issuer.url) as browser:
            form = {"request": urlsplit(url).query, "user": name, "password": name}
            signed_in = await browser.post("/login", data=form)
            back = await browser.get(signed_in.headers["Location"])
        return dict(parse_qsl(urlsplit(back.headers["Location"]).query))

    async def exchange_code(
        self, provider: OidcRefresh, name: str = "alice", *, note: Note | None = None
    ) -> ExchangeResult:
        """Walk one user through it."""
        verifier, nonce = new_secret(), new_secret()
        url = await provider.authorize_url(state="s1", verifier=verifier, nonce=nonce)
        code = (await self.confirm(url, name))["code"]
        return await provider.exchange_code(code=SecretStr(code), verifier=verifier, nonce=nonce, note=note)

    @property
    def alive(self) -> int:
        """Count the grants that the identity provider would renew."""
        families = {id(one): one for one in self.issuer.state.refresh_tokens.values()}
        return sum(not one.ended for one in families.values())

    def asked(self, path: str) -> list[RequestRecord]:
        return [one for one in self.issuer.requests.records if one.path == path]


@pytest.fixture
async def oidc(harness: ProcessHost) -> AsyncGenerator[OidcFixture]:
    issuer = Issuer(clock=harness.clock)
    issuer.add_client(CLIENT, secret=SECRET.get_secret_value(), redirect_uris=[REDIRECT])
    harness.sandbox.state.check_bearer = issuer.uid_of
    way = Way(harness, issuer)
    async with open_pool(ca_bundle=None, user_agent="tests", transport=way) as pool:
        yield OidcFixture(harness, issuer, way, pool)


async def test_the_browser_is_sent_with_pkce_a_nonce_and_what_lasting_access_needs(oidc: OidcFixture) -> None:
    provider = oidc.provider()

    url = await provider.authorize_url(state="s1", verifier=new_secret(), nonce=SecretStr("n1"))

    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert len(query.pop("code_challenge")) == 43
    assert query == {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": REDIRECT,
        "state": "s1",
        "nonce": "n1",
        "scope": "openid offline_access",
        "prompt": "consent",
        "code_challenge_method": "S256",
        "resource": "nextcloud",
    }
    assert (provider.name, provider.redirect_uri) == ("oidc_refresh", REDIRECT)
    assert (provider.uses_pkce, provider.uses_nonce) == (True, True)
    assert await provider.callback_issuer() == oidc.issuer.url


def metadata_without(oidc: OidcFixture, *names: str, **changes: object) -> Answer:
    def answer(request: httpx2.Request) -> httpx2.Response | None:
        if "well-known" not in request.url.path:
            return None
        metadata = {name: value for name, value in oidc.issuer.metadata().items() if name not in names}
        return httpx2.Response(200, json={**metadata, **changes}, request=request)

    return answer


async def test_what_the_provider_does_not_know_is_not_asked_for(oidc: OidcFixture) -> None:
    oidc.way.instead = metadata_without(
        oidc, "authorization_response_iss_parameter_supported", scopes_supported=["openid"]
    )
    provider = oidc.provider(resource=None)

    url = await provider.authorize_url(state="s1", verifier=None, nonce=None)

    query = parse_qs(urlsplit(url).query)
    assert query["scope"] == ["openid"]
    assert {"prompt", "resource", "audience"}.isdisjoint(query)
    assert await provider.callback_issuer() is None


async def test_elsewhere_the_audience_has_another_name(oidc: OidcFixture) -> None:
    provider = oidc.provider(resource="https://cloud.example.org", resource_parameter="audience")

    url = await provider.authorize_url(state="s1", verifier=None, nonce=None)

    assert parse_qs(urlsplit(url).query)["audience"] == ["https://cloud.example.org"]


async def test_a_code_gives_tokens_that_nextcloud_takes_and_says_who_confirmed(oidc: OidcFixture) -> None:
    exchanged = await oidc.exchange_code(oidc.provider())

    assert exchanged.identity.uid == "alice"
    assert exchanged.identity.storage_id
    assert exchanged.subject == Principal(oidc.issuer.url, ALICE)
    claims = oidc.issuer.state.access_tokens[exchanged.tokens.access_token.get_secret_value()][1]
    assert claims["aud"] == "nextcloud"


async def test_a_refresh_gives_the_next_tokens_for_the_same_audience(oidc: OidcFixture) -> None:
    provider = oidc.provider()
    first = (await oidc.exchange_code(provider)).tokens
    assert first.refresh_token is not None

    second = await provider.refresh(first.refresh_token)

    assert second.refresh_token not in (None, first.refresh_token)
    assert oidc.issuer.uid_of(second.access_token.get_secret_value()) == "alice"
    claims = oidc.issuer.state.access_tokens[second.access_token.get_secret_value()][1]
    assert claims["aud"] == "nextcloud"
    with pytest.raises(GrantDead):
        await provider.refresh(first.refresh_token)


async def test_a_code_of_another_browsers_trip_is_refused_by_its_nonce(oidc: OidcFixture) -> None:
    provider = oidc.provider()
    oidc.issuer.faults.switch_on("wrong_nonce")

    with pytest.raises(GrantRefused):
        await oidc.exchange_code(provider)

    assert oidc.alive == 0


async def test_a_code_without_its_verifier_is_refused(oidc: OidcFixture) -> None:
    provider, nonce = oidc.provider(), new_secret()
    url = await provider.authorize_url(state="s1", verifier=new_secret(), nonce=nonce)
    code = SecretStr((await oidc.confirm(url))["code"])

    with pytest.raises(GrantRefused):
        await provider.exchange_code(code=code, verifier=new_secret(), nonce=nonce)


@pytest.mark.parametrize("claim", ["preferred_username", "no_such_claim"])
async def test_people_are_named_by_the_claim_that_the_operator_chose(oidc: OidcFixture, claim: str) -> None:
    provider = oidc.provider(identity_claim=claim)

    if claim == "no_such_claim":
        with pytest.raises(GrantRefused, match="no_such_claim"):
            await oidc.exchange_code(provider)
        assert oidc.alive == 0
    else:
        assert (await oidc.exchange_code(provider)).subject == Principal(oidc.issuer.url, "alice")


async def test_access_that_does_not_last_is_refused(oidc: OidcFixture) -> None:
    oidc.issuer.faults.switch_on("no_refresh_token")

    with pytest.raises(GrantRefused, match="offline_access"):
        await oidc.exchange_code(oidc.provider())


async def test_an_answer_that_does_not_say_who_confirmed_is_refused_and_ended(oidc: OidcFixture) -> None:
    provider = oidc.provider()
    url = await provider.authorize_url(state="s1", verifier=None, nonce=None)
    code = SecretStr((await oidc.confirm(url))["code"])

    with pytest.raises(GrantRefused, match="who confirmed"):
        await provider.exchange_code(code=code, verifier=None, nonce=None)

    assert oidc.alive == 0


async def test_an_answer_without_an_id_token_is_refused_and_ended(oidc: OidcFixture) -> None:
    provider, verifier, nonce = oidc.provider(), new_secret(), new_secret()
    url = await provider.authorize_url(state="s1", verifier=verifier, nonce=nonce)
    code = SecretStr((await oidc.confirm(url.replace("openid+", "")))["code"])

    with pytest.raises(GrantRefused, match="who confirmed"):
        await provider.exchange_code(code=code, verifier=verifier, nonce=nonce)

    assert oidc.alive == 0


async def test_a_token_that_nextcloud_does_not_take_is_the_operators_to_mend(oidc: OidcFixture) -> None:
    oidc.harness.sandbox.state.check_bearer = None

    with pytest.raises(CredentialRejected, match="user_oidc"):
        await oidc.exchange_code(oidc.provider())

    assert oidc.alive == 0


async def test_tokens_that_cannot_be_ended_at_once_do_not_hide_what_went_wrong(oidc: OidcFixture) -> None:
    oidc.harness.sandbox.state.check_bearer = None

    def no_revocation(request: httpx2.Request) -> httpx2.Response | None:
        return httpx2.Response(503) if request.url.path == "/revoke" else None

    oidc.way.instead = no_revocation
    with pytest.raises(OrphanedTokens, match="user_oidc") as left:
        await oidc.exchange_code(oidc.provider())

    assert isinstance(left.value.reason, CredentialRejected)


async def test_what_a_code_gave_is_noted_before_it_is_known_whose_it_is(oidc: OidcFixture) -> None:
    oidc.harness.sandbox.state.check_bearer = None
    noted: list[Tokens] = []

    async def note(tokens: Tokens) -> None:
        noted.append(tokens)

    with pytest.raises(CredentialRejected):
        await oidc.exchange_code(oidc.provider(), note=note)

    assert [one.access_token.get_secret_value() for one in noted] == list(oidc.issuer.state.access_tokens)


async def test_revoking_ends_the_refresh_token_and_what_belongs_to_it(oidc: OidcFixture) -> None:
    provider = oidc.provider()
    tokens = (await oidc.exchange_code(provider)).tokens

    assert await provider.revoke(tokens)
    assert await provider.revoke(tokens)

    assert oidc.alive == 0
    assert oidc.issuer.uid_of(tokens.access_token.get_secret_value()) is None


async def test_where_nothing_can_be_revoked_that_counts_as_done(oidc: OidcFixture) -> None:
    oidc.way.instead = metadata_without(oidc, "revocation_endpoint")
    provider = oidc.provider()
    tokens = (await oidc.exchange_code(provider)).tokens

    assert await provider.revoke(tokens)

    assert oidc.asked("/revoke") == []


@pytest.mark.parametrize("status", [400, 401, 403, 503])
async def test_a_revocation_that_was_refused_is_to_be_tried_again(oidc: OidcFixture, status: int) -> None:
    provider = oidc.provider()
    tokens = (await oidc.exchange_code(provider)).tokens
    oidc.way.instead = lambda request: httpx2.Response(status) if request.url.path == "/revoke" else None

    with pytest.raises(Unavailable):
        await provider.revoke(tokens)


ANSWERS = {
    "a page": (httpx2.Response(200, html="<html>"), Unavailable),
    "an unknown error": (httpx2.Response(400, json={"error": "temporarily_unavailable"}), Unavailable),
    "our own fault": (httpx2.Response(401, json={"error": "invalid_client"}), Unavailable),
    "too many": (httpx2.Response(429), Throttled),
    "down": (httpx2.Response(503), Unavailable),
    "a redirect": (httpx2.Response(302, headers={"Location": "https://elsewhere.test/"}), Unavailable),
    "no token": (httpx2.Response(200, json={"token_type": "Bearer"}), Unavailable),
}


@pytest.mark.parametrize("kind", ANSWERS)
async def test_an_answer_that_is_none_leaves_everything_as_it_is(oidc: OidcFixture, kind: str) -> None:
    provider = oidc.provider()
    tokens = (await oidc.exchange_code(provider)).tokens
    assert tokens.refresh_token is not None
    given, error = ANSWERS[kind]

    def answer(request: httpx2.Request) -> httpx2.Response | None:
        if request.url.path != "/token":
            return None
        return httpx2.Response(given.status_code, headers=given.headers, content=given.content)

    oidc.way.instead = answer
    with pytest.raises(NextcloudError) as caught:
        await provider.refresh(tokens.refresh_token)
    oidc.way.instead = None

    assert type(caught.value) is error
    assert (await provider.refresh(tokens.refresh_token)).access_token


async def test_an_account_without_a_picture_of_its_own_has_none(oidc: OidcFixture) -> None:
    tokens = Tokens(SecretStr("access"), None, None)

    assert await oidc.provider().picture(tokens, uid="alice") is None
