"""Reads an issuer's metadata: OpenID Connect Discovery 1.0 and RFC 8414, both well-known forms."""

import ipaddress
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

import anyio

from nextcloud_mcp_server.auth.cached import Ages, Cached
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.errors import ConfigurationError, IssuerUnavailable

logger = logging.getLogger(__name__)

_AGES = Ages(fresh_seconds=3600.0, stale_seconds=86_400.0)

#: How long a starting server waits for an issuer that is starting too, and its first pause between requests.
START_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 8.0

_OK = 200
_ISSUER_SHOWN = 200


@dataclass(frozen=True, slots=True)
class IssuerMetadata:
    """The parts of an issuer's metadata that are used.

    URLs that this server itself requests are on the issuer's own origin.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    introspection_endpoint: str | None
    revocation_endpoint: str | None
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    code_challenge_methods: frozenset[str]
    iss_parameter: bool
    scopes: frozenset[str]
    subject_types: frozenset[str]


class Discovery:
    """Fetches an issuer's metadata, and caches it for an hour (for a day while the issuer is down)."""

    def __init__(
        self, issuer: str, outgoing: Outgoing, *, monotonic: Callable[[], float] = anyio.current_time
    ) -> None:
        self.issuer = issuer
        self._outgoing = outgoing
        self._monotonic = monotonic
        self._cached = Cached(self._fetch, _AGES, monotonic=monotonic)

    async def get(self) -> IssuerMetadata:
        """Return the metadata.

        Raises:
            IssuerUnavailable: The issuer does not answer now.
            ConfigurationError: The issuer answers, but not with the metadata of the configured issuer.
        """
        return await self._cached.get()

    async def ready(
        self, *, seconds: float = START_SECONDS, sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    ) -> IssuerMetadata:
        """Return the metadata when the server starts; wait for an issuer that is starting at the same time.

        Raises:
            IssuerUnavailable: The issuer did not answer in time.
            ConfigurationError: As `get`, at once.
        """
        until, pause = self._monotonic() + seconds, _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self.get()
            except IssuerUnavailable as error:
                if self._monotonic() + pause > until:
                    raise
                logger.warning("%s Trying again in %.0f s.", error, pause)
            await sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _fetch(self) -> IssuerMetadata:
        statuses: list[int] = []
        for url in _well_known(self.issuer):
            answer = await self._outgoing.json("GET", url)
            if answer.status == _OK and answer.fields:
                return _checked(self.issuer, answer.fields)
            statuses.append(answer.status)
        raise ConfigurationError(
            f"OIDC_ISSUER: no metadata of an identity provider is found below {self.issuer} "
            f"(statuses {', '.join(map(str, statuses))}). Set it to the issuer's exact address."
        )


def refuse_pairwise(metadata: IssuerMetadata, *, identity_claim: str) -> None:
    """Refuse an issuer that gives each client another subject for one user (OpenID Connect Core §8.1).

    The MCP client and this server's own client are two clients, so no user would ever be recognized.

    Raises:
        ConfigurationError: The issuer supports pairwise subjects only, and `sub` identifies users.
    """
    if identity_claim == "sub" and metadata.subject_types == frozenset({"pairwise"}):
        raise ConfigurationError(
            "OIDC_IDENTITY_CLAIM: this identity provider gives each client another 'sub' for the same person "
            "(pairwise subjects). Set it to a claim that is the same for all, such as 'oid' with Entra ID."
        )


def is_safe(url: str) -> bool:
    """Tell whether a URL protects what is sent to it: https, or http to this computer."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    named = bool(parts.hostname) and parts.username is None and parts.password is None and not parts.fragment
    return named and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts)))


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _well_known(issuer: str) -> list[str]:
    """List the URLs where an issuer's metadata may be.

    First appended to the path (OpenID Connect), then inserted before the path (RFC 8414 §3).
    """
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    urls = [
        f"{issuer.rstrip('/')}/.well-known/openid-configuration",
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
    ]
    return list(dict.fromkeys(urls))


def _checked(issuer: str, body: Mapping[str, Any]) -> IssuerMetadata:
    named = body.get("issuer")
    if named != issuer:
        # RFC 8414 §3.3 and OpenID Connect Discovery §4.3: else one issuer could speak for another.
        raise ConfigurationError(
            f"OIDC_ISSUER: the identity provider calls itself {str(named)[:_ISSUER_SHOWN]!r}, and "
            f"{issuer!r} is configured. The two must be the same, character by character."
        )
    reader = _Reader(issuer, body)
    return IssuerMetadata(
        issuer=issuer,
        authorization_endpoint=reader.needed("authorization_endpoint", own_origin=False),
        token_endpoint=reader.needed("token_endpoint"),
        jwks_uri=reader.needed("jwks_uri"),
        introspection_endpoint=reader.url("introspection_endpoint"),
        revocation_endpoint=reader.url("revocation_endpoint"),
        userinfo_endpoint=reader.url("userinfo_endpoint"),
        end_session_endpoint=reader.url("end_session_endpoint", own_origin=False),
        code_challenge_methods=reader.words("code_challenge_methods_supported"),
        iss_parameter=body.get("authorization_response_iss_parameter_supported") is True,
        scopes=reader.words("scopes_supported"),
        subject_types=reader.words("subject_types_supported"),
    )


class _Reader:
    def __init__(self, issuer: str, body: Mapping[str, Any]) -> None:
        self._origin = urlsplit(issuer)[:2]
        self._body = body

    def url(self, name: str, *, own_origin: bool = True) -> str | None:
        """Read a URL; one that this server itself requests counts only on the issuer's own origin.

        A URL for the browser may be on another origin: no secret of this server is sent there.
        """
        value = self._body.get(name)
        if not isinstance(value, str) or not is_safe(value):
            return None
        return value if not own_origin or urlsplit(value)[:2] == self._origin else None

    def needed(self, name: str, *, own_origin: bool = True) -> str:
        value = self.url(name, own_origin=own_origin)
        if value is None:
            where = " on its own origin" if own_origin else ""
            raise ConfigurationError(
                f"OIDC_ISSUER: the identity provider's metadata has no usable {name}: an https address{where}."
            )
        return value

    def words(self, name: str) -> frozenset[str]:
        value = self._body.get(name)
        items = cast("list[object]", value) if isinstance(value, list) else []
        return frozenset(item for item in items if isinstance(item, str))
