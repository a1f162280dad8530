"""The client side of OAuth 2.1: authorization URLs, code exchange, token refresh, revocation.

Every request goes through `Outgoing`, which limits time, size and redirects. A token endpoint's answer is used
only after the checks here (RFC 6749 §5).
"""

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast
from urllib.parse import urlencode, urlsplit, urlunsplit

from pydantic import SecretStr

from nextcloud_mcp_server.auth.outgoing import JsonAnswer, Outgoing
from nextcloud_mcp_server.errors import GrantDead, GrantRefused, IssuerUnavailable
from nextcloud_mcp_server.storage.records import Tokens

#: RFC 6749 appendix A.11 and A.12: visible ASCII. The longest codes seen (Entra) have 1,500 characters.
_CODE = re.compile(r"[\x21-\x7e]{8,4096}")
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
#: RFC 6749 §5.1 and RFC 7009 §2.2: no other status means success.
_OK = 200
_LONGEST_LIFE_SECONDS = 10 * 365 * 24 * 3600

#: Errors about this server's own registration, not about the code (RFC 6749 §5.2).
_OUR_FAULT = frozenset({"invalid_client", "unauthorized_client", "unsupported_grant_type"})


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """This server's client registration at a provider.

    `posts_secret` selects `client_secret_post`, for providers that ignore the Authorization header. Without a
    secret the client is public: only PKCE binds a code to the request that asked for it.
    """

    client_id: str
    secret: SecretStr | None
    posts_secret: bool = False


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """The tokens of a code exchange.

    `scopes` is None if the answer does not name them (§5.1: as requested).
    """

    tokens: Tokens
    id_token: SecretStr | None
    scopes: frozenset[str] | None


def new_secret() -> SecretStr:
    """Make a state, nonce or code verifier: 256 random bits in 43 characters (RFC 7636 §4.1)."""
    return SecretStr(secrets.token_urlsafe(32))


def has_shape_of_code(text: str) -> bool:
    """Tell whether a text can be an authorization code; any other text is never sent to a provider.

    Providers count failed requests per address. Anyone can put junk into a callback's URL, and sending it would
    lock every user out.
    """
    return _CODE.fullmatch(text) is not None


def authorize_url(
    endpoint: str,
    *,
    client_id: str,
    redirect_uri: str,
    scope: str | None,
    state: str,
    verifier: SecretStr | None,
    nonce: SecretStr | None,
    extra: Mapping[str, str] | None = None,
) -> str:
    """Build the URL of an authorization request; the query of `endpoint` itself is kept (§3.1)."""
    fields = {"response_type": "code", "client_id": client_id, "redirect_uri": redirect_uri, "state": state}
    if scope is not None:
        fields["scope"] = scope
    if verifier is not None:
        fields |= {"code_challenge": _challenge(verifier), "code_challenge_method": "S256"}
    if nonce is not None:
        fields["nonce"] = nonce.get_secret_value()
    parts = urlsplit(endpoint)
    query = "&".join(filter(None, (parts.query, urlencode(fields | dict(extra or {})))))
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


async def exchange_code(
    outgoing: Outgoing,
    endpoint: str,
    client: OAuthClient,
    *,
    code: SecretStr,
    redirect_uri: str,
    verifier: SecretStr | None,
    now: Callable[[], datetime],
    needs: frozenset[str] = frozenset(),
    extra: Mapping[str, str] | None = None,
) -> TokenAnswer:
    """Exchange an authorization code for tokens.

    Raises:
        GrantRefused: The code is malformed (nothing was sent), it is not accepted, or
            the answer gives less than `needs`.
        IssuerUnavailable: The provider cannot be reached, rejects this server, or sends an invalid answer.
    """
    text = code.get_secret_value()
    if not has_shape_of_code(text):
        raise GrantRefused("The code of the sign-in is malformed. Start again.")
    form = {
        "grant_type": "authorization_code",
        "code": text,
        "redirect_uri": redirect_uri,
        **(extra or {}),
    }
    if verifier is not None:
        form["code_verifier"] = verifier.get_secret_value()
    answer = await _ask(outgoing, endpoint, client, form)
    granted = read_tokens(answer, now=now())
    if granted.scopes is not None and not needs <= granted.scopes:
        raise GrantRefused("The provider granted fewer scopes than were requested; tell the operator.")
    return granted


async def refresh(
    outgoing: Outgoing,
    endpoint: str,
    client: OAuthClient,
    *,
    refresh_token: SecretStr,
    now: Callable[[], datetime],
    extra: Mapping[str, str] | None = None,
) -> Tokens:
    """Exchange a refresh token for new tokens (RFC 6749 §6).

    Raises:
        GrantDead: The provider does not accept the refresh token any more.
        IssuerUnavailable: Any other failure; it may be temporary.
    """
    form = {
        "grant_type": "refresh_token",
        "refresh_token": refresh_token.get_secret_value(),
        **(extra or {}),
    }
    asked_at = now()
    answer = await _ask(outgoing, endpoint, client, form)
    if answer.status != _OK and answer.fields.get("error") == "invalid_grant":
        raise GrantDead("The identity provider no longer accepts the access given earlier.")
    try:
        return read_tokens(answer, now=asked_at).tokens
    except GrantRefused as error:
        raise IssuerUnavailable("The identity provider did not renew the access; try again later.") from error


async def revoke(outgoing: Outgoing, endpoint: str, client: OAuthClient, *, refresh_token: SecretStr) -> None:
    """Revoke a refresh token and what belongs to it (RFC 7009); an unknown one counts as revoked (§2.2).

    Raises:
        IssuerUnavailable: The token was not revoked.
    """
    form = {"token": refresh_token.get_secret_value(), "token_type_hint": "refresh_token"}
    answer = await _ask(outgoing, endpoint, client, form)
    if answer.status != _OK:
        raise IssuerUnavailable("The identity provider did not end the access; try again later.")


async def _ask(outgoing: Outgoing, endpoint: str, client: OAuthClient, form: dict[str, str]) -> JsonAnswer:
    if client.secret is not None and not client.posts_secret:
        return await outgoing.json("POST", endpoint, form=form, basic=(client.client_id, client.secret))
    form = {**form, "client_id": client.client_id}
    if client.secret is not None:
        form["client_secret"] = client.secret.get_secret_value()
    return await outgoing.json("POST", endpoint, form=form)


def read_tokens(answer: JsonAnswer, *, now: datetime) -> TokenAnswer:
    """Parse the answer of a token endpoint.

    Raises:
        GrantRefused: The provider refused the code. Its error text is not repeated: the author of the
            callback's URL could have chosen it.
        IssuerUnavailable: The answer is not one of a token endpoint, or the provider does not accept this server.
    """
    body = answer.fields
    if not body:
        raise IssuerUnavailable("The provider's answer to the token request cannot be read; try again.")
    if answer.status != _OK:
        if str(body.get("error")) in _OUR_FAULT:
            raise IssuerUnavailable(
                "The provider does not accept this server's own id and secret; tell the operator."
            )
        raise GrantRefused("The provider did not accept the sign-in: it was used already, or is too old.")
    if str(body.get("token_type")).casefold() != "bearer":
        raise IssuerUnavailable(
            "The provider gave a token of a type that this server cannot use; tell the operator."
        )
    access_token = _token(body, "access_token")
    if access_token is None:
        raise IssuerUnavailable("The provider's answer has no access token; tell the operator.")
    scope = body.get("scope")
    return TokenAnswer(
        tokens=Tokens(
            access_token=access_token,
            refresh_token=_token(body, "refresh_token"),
            expires_at=_end(body.get("expires_in"), now),
        ),
        id_token=_token(body, "id_token"),
        scopes=frozenset(scope.split()) if isinstance(scope, str) else None,
    )


def _token(body: Mapping[str, object], name: str) -> SecretStr | None:
    value = body.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise IssuerUnavailable("The provider gave a malformed token; tell the operator.")
    return SecretStr(value)


def _end(expires_in: object, now: datetime) -> datetime | None:
    """Convert `expires_in` to a time; None if it is missing or overflows a date.

    It is in seconds, which some providers write as a string.
    """
    try:
        seconds = int(cast("int", expires_in))
    except (TypeError, ValueError, OverflowError):
        return None
    return now + timedelta(seconds=min(max(seconds, 0), _LONGEST_LIFE_SECONDS))


def _challenge(verifier: SecretStr) -> str:
    digest = hashlib.sha256(verifier.get_secret_value().encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
