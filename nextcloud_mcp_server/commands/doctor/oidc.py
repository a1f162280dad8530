"""Checks what mode `oidc` requires besides Nextcloud: identity provider, clients, public address."""

from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx2

from nextcloud_mcp_server.auth.discovery import Discovery, IssuerMetadata
from nextcloud_mcp_server.auth.jwks import ALGORITHMS, KeySet
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict, why_silent
from nextcloud_mcp_server.errors import ConfigurationError, IssuerUnavailable, NextcloudError, TokenRefused
from nextcloud_mcp_server.nextcloud import body
from nextcloud_mcp_server.nextcloud.oauth2_admin import registered_redirect
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.settings.environment import Settings

#: OpenID Connect Core §3.1.2.6: errors for `prompt=none` that show that the client is valid.
_NOBODY_SIGNED_IN = frozenset(
    {"login_required", "interaction_required", "consent_required", "account_selection_required"}
)
_LONGEST_ERROR = 60
_ALGORITHM_OF = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}


async def look_at_sign_in(settings: Settings, pool: httpx2.AsyncClient) -> list[Finding]:
    """Check the identity provider and the OAuth client that signs users in."""
    outgoing = Outgoing(pool)
    discovery = Discovery(settings.oidc_issuer or "", outgoing)
    try:
        metadata = await discovery.get()
    except IssuerUnavailable as error:
        advice = f"Check that {settings.oidc_issuer} (OIDC_ISSUER) is right and runs, and that it is reached from here."
        return [Finding(Verdict.FAIL, "identity provider", f"{error} {advice}")]
    except ConfigurationError as error:
        return [Finding(Verdict.FAIL, "identity provider", str(error))]
    return [
        Finding(Verdict.OK, "identity provider", f"{metadata.issuer} answers, under exactly this name"),
        _pkce(metadata),
        _subjects(settings, metadata),
        _mapping(settings),
        await _keys(KeySet(discovery, outgoing), outgoing, metadata),
        _scopes(settings, metadata),
        _opaque_tokens(settings, metadata),
        await _sign_in_client(settings, metadata, pool),
    ]


async def look_at_grants(settings: Settings, pool: httpx2.AsyncClient) -> list[Finding]:
    """Check how access to Nextcloud is obtained, without a request that could count as failed."""
    url = NextcloudUrl.parse(settings.require_nextcloud())
    public_url = NextcloudUrl.parse(settings.nextcloud_public_url) if settings.nextcloud_public_url else None
    found = [] if public_url is None else [await _public(public_url, pool)]
    if settings.grant_provider == "nextcloud_oauth2":
        found.append(await _oauth2_client(settings, pool, url, public_url))
    return found


async def look_at_own_address(settings: Settings, pool: httpx2.AsyncClient) -> Finding:
    """Check that the public address leads to this server, through any proxy before it."""
    try:
        answer = await body.look(pool, "GET", f"{settings.server_url}/healthz")
    except httpx2.HTTPError as error:
        silent = (
            f"{settings.server_url} does not answer from here: start the server, and check the reverse proxy and the "
            "name. If browsers outside reach it, ignore this: some networks do not lead back to themselves."
        )
        return Finding(Verdict.WARN, "own address", why_silent(error, settings.server_url, silent))
    if answer.status_code == HTTPStatus.OK and '"status"' in answer.text:
        return Finding(Verdict.OK, "own address", f"{settings.server_url} leads to this server")
    if answer.status_code == HTTPStatus.MISDIRECTED_REQUEST:
        advice = "the reverse proxy must pass the Host header on, or send X-Forwarded-Host and be in TRUSTED_PROXIES."
    else:
        advice = "check where the reverse proxy sends it."
    return Finding(
        Verdict.FAIL, "own address", f"{settings.server_url} answers with {answer.status_code}: {advice}"
    )


def _pkce(metadata: IssuerMetadata) -> Finding:
    if "S256" in metadata.code_challenge_methods:
        return Finding(Verdict.OK, "PKCE", "S256")
    if metadata.code_challenge_methods:
        return Finding(
            Verdict.FAIL,
            "PKCE",
            "the identity provider takes another method than S256 alone: allow S256 for the client.",
        )
    return Finding(
        Verdict.WARN,
        "PKCE",
        "the identity provider does not say that it checks PKCE: it is sent, and a client secret should be set too.",
    )


def _subjects(settings: Settings, metadata: IssuerMetadata) -> Finding:
    kinds = metadata.subject_types
    if settings.oidc_identity_claim != "sub":
        return Finding(Verdict.OK, "identity", f"users are told apart by {settings.oidc_identity_claim}")
    if kinds == frozenset({"pairwise"}):
        return Finding(
            Verdict.FAIL,
            "identity",
            "this identity provider gives each client another `sub` for the same user (pairwise), so a chat "
            "client's token never matches who signs in here: set OIDC_IDENTITY_CLAIM to a claim that all clients get "
            "alike (Entra ID: oid).",
        )
    if "pairwise" in kinds:
        return Finding(
            Verdict.WARN,
            "identity",
            "this identity provider can give each client another `sub` (pairwise): choose public subjects for all "
            "clients, or set OIDC_IDENTITY_CLAIM.",
        )
    return Finding(Verdict.OK, "identity", "users are told apart by sub, the same for every client")


def _mapping(settings: Settings) -> Finding:
    if settings.mapping_claim is not None:
        return Finding(
            Verdict.OK, "accounts", f"the claim {settings.mapping_claim} names each Nextcloud account"
        )
    return Finding(
        Verdict.WARN,
        "accounts",
        "users say themselves which Nextcloud account is their own. Where the identity provider knows the Nextcloud "
        "user id, set ACCOUNT_MAPPING to the claim that holds it, such as preferred_username; users must not be able "
        "to change it themselves.",
    )


async def _keys(key_set: KeySet, outgoing: Outgoing, metadata: IssuerMetadata) -> Finding:
    try:
        answer = await outgoing.json("GET", metadata.jwks_uri)
        listed: object = answer.fields.get("keys")
        usable = 0
        for jwk in cast("list[Any]", listed) if isinstance(listed, list) else []:
            usable += isinstance(jwk, dict) and await _is_usable(key_set, cast("dict[str, Any]", jwk))
    except IssuerUnavailable as error:
        return Finding(Verdict.FAIL, "signing keys", str(error))
    if usable:
        return Finding(Verdict.OK, "signing keys", f"{usable} usable")
    return Finding(
        Verdict.FAIL,
        "signing keys",
        f"none that can be used at {metadata.jwks_uri}: have tokens signed with RS256, ES256 or EdDSA, and RSA keys "
        "of 2048 bits or more.",
    )


async def _is_usable(key_set: KeySet, jwk: dict[str, Any]) -> bool:
    kid = jwk.get("kid")
    alg = jwk.get("alg") if str(jwk.get("alg")) in ALGORITHMS else _ALGORITHM_OF.get(str(jwk.get("kty")))
    if alg is None or not isinstance(kid, str | None):
        return False
    try:
        await key_set.key(kid, alg)
    except TokenRefused:
        return False
    return True


def _scopes(settings: Settings, metadata: IssuerMetadata) -> Finding:
    if settings.grant_provider == "oidc_refresh" and "offline_access" not in metadata.scopes:
        return Finding(
            Verdict.WARN,
            "scopes",
            "the identity provider does not list offline_access, which keeps access alive: allow it for the client, "
            "or users are asked again whenever a token ends.",
        )
    if settings.token_scopes == "ignore":  # noqa: S105 - a word, no password
        return Finding(Verdict.OK, "scopes", "not asked of tokens; what each user allows decides")
    missing = sorted(set(settings.asked_words.every) - metadata.scopes)
    if metadata.scopes and missing:
        return Finding(
            Verdict.WARN,
            "scopes",
            f"the identity provider does not list {', '.join(missing)}: add them there (docs/identity-providers.md), "
            "or set TOKEN_SCOPES=ignore to let what each user allows decide alone.",
        )
    return Finding(Verdict.OK, "scopes", "asked of every token")


def _opaque_tokens(settings: Settings, metadata: IssuerMetadata) -> Finding:
    if metadata.introspection_endpoint and settings.introspection_client:
        return Finding(Verdict.OK, "opaque tokens", "checked by asking the identity provider")
    return Finding(Verdict.OK, "opaque tokens", "refused: signed ones alone can be checked here")


async def _sign_in_client(settings: Settings, metadata: IssuerMetadata, pool: httpx2.AsyncClient) -> Finding:
    """Request a sign-in without user interaction: a known client with this redirect URI is redirected."""
    query = {
        "response_type": "code",
        "client_id": settings.oidc_client_id or "",
        "redirect_uri": settings.sign_in_callback_url,
        "scope": "openid",
        "state": "doctor",
        "nonce": "doctor",
        "prompt": "none",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
    }
    try:
        url = httpx2.URL(metadata.authorization_endpoint).copy_merge_params(query)
        answer = await body.look(pool, "GET", url, headers={"Accept": "text/html"})
    except httpx2.HTTPError:
        return Finding(Verdict.WARN, "sign-in client", "its page did not answer: run doctor again.")
    location = urlsplit(answer.headers.get("Location", ""))
    error = parse_qs(location.query).get("error", [""])[0]
    if location._replace(query="", fragment="").geturl() == settings.sign_in_callback_url:
        if error in _NOBODY_SIGNED_IN:
            return Finding(Verdict.OK, "sign-in client", "known, with our redirect URI")
        return Finding(
            Verdict.WARN,
            "sign-in client",
            f"known, with our redirect URI, but the identity provider answers {error[:_LONGEST_ERROR]!r}: allow it the "
            "authorization code flow with PKCE and the scope openid.",
        )
    register = (
        f"register {settings.sign_in_callback_url} as a redirect URI of the client {settings.oidc_client_id}, "
        "exactly so."
    )
    if answer.status_code >= HTTPStatus.BAD_REQUEST:
        return Finding(
            Verdict.FAIL,
            "sign-in client",
            f"the identity provider refuses it ({answer.status_code}): check OIDC_CLIENT_ID, and {register}",
        )
    if answer.is_redirect and not error:
        return Finding(Verdict.OK, "sign-in client", "the identity provider goes on to its sign-in")
    return Finding(
        Verdict.WARN,
        "sign-in client",
        "the identity provider does not say whether it knows it. If signing in ends on an error page there, "
        f"{register}",
    )


async def _public(public_url: NextcloudUrl, pool: httpx2.AsyncClient) -> Finding:
    try:
        answer = await body.look(pool, "GET", f"{public_url}/status.php")
        is_nextcloud = answer.status_code == HTTPStatus.OK and "installed" in answer.text
    except httpx2.HTTPError:
        is_nextcloud = False
    if is_nextcloud:
        return Finding(Verdict.OK, "public address", f"{public_url} is a Nextcloud too")
    return Finding(
        Verdict.WARN,
        "public address",
        f"no Nextcloud answers at {public_url} from here: browsers must reach it, so try it in one.",
    )


async def _oauth2_client(
    settings: Settings, pool: httpx2.AsyncClient, url: NextcloudUrl, public_url: NextcloudUrl | None
) -> Finding:
    client_id = settings.nextcloud_oauth_client_id or ""
    try:
        registered = await registered_redirect(pool, url, client_id, public_url=public_url)
    except NextcloudError as error:
        return Finding(Verdict.FAIL, "OAuth2 client", str(error))
    if registered == settings.grant_callback_url:
        return Finding(
            Verdict.OK,
            "OAuth2 client",
            "known to Nextcloud, with our redirect URI (its secret cannot be tried)",
        )
    again = (
        "run 'nextcloud-mcp-server setup nextcloud' and set what it prints (with --into, delete the two files that it "
        "wrote first), then start the server again."
    )
    if registered is None:
        return Finding(
            Verdict.FAIL, "OAuth2 client", f"Nextcloud does not know NEXTCLOUD_OAUTH_CLIENT_ID: {again}"
        )
    return Finding(
        Verdict.FAIL,
        "OAuth2 client",
        f"it is registered at Nextcloud for {registered}, and this server's is {settings.grant_callback_url}: correct "
        f"NEXTCLOUD_MCP_SERVER_URL, or delete the client at Nextcloud, {again}",
    )
