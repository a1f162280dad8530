"""Clients that describe themselves in a document at their id (OAuth Client ID Metadata Document).

The document is read only for `/authorize`, where a user waits and sees the host; `/token` uses what was read
there. A changed document counts from its next reading on. If it cannot be read now, the previous version counts
for a week. If it is gone or has become invalid, the client is refused.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio
import httpx2

from nextcloud_mcp_server.auth.builtin import client_fields, document_source
from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.client_fields import ClientRules, Fields
from nextcloud_mcp_server.auth.builtin.clients import ClientRecords
from nextcloud_mcp_server.auth.builtin.document_source import DocumentUnavailable
from nextcloud_mcp_server.auth.rate_limiter import RateLimiter, network_of
from nextcloud_mcp_server.errors import (
    AuthorizeRefused,
    ClientBarred,
    DocumentRefusal,
    DocumentUnfit,
    DocumentUnreachable,
    OAuthRefusal,
)
from nextcloud_mcp_server.storage.oauth_records import Client

logger = logging.getLogger(__name__)

STALE = timedelta(days=7)

#: Limits for documents that were never read before: per host and minute, per address and hour, and in all per
#: hour.
MOST_PER_HOST = 10
MOST_PER_ADDRESS = 60
MOST_IN_ALL = 300
_MINUTE_SECONDS, _HOUR_SECONDS = 60.0, 3600.0

#: Pause after a failed request for a document.
_PAUSE_SECONDS = 30.0
_MOST_KEPT = 512
_EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The reason why there is no client; a new exception is raised for each caller."""

    error: str
    description: str
    reason: type[AuthorizeRefused]
    status: int = 400


_NOT_READ = _Refusal(
    "temporarily_unavailable", "The client's document was not read yet.", DocumentUnreachable, 503
)


@dataclass(slots=True)
class _Kept:
    """The result of the last reading, valid until `until`; `lock` lets one task read while others wait."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    outcome: Client | _Refusal = _NOT_READ
    until: float = 0.0


class ClientDocuments:
    """Finds the client for an id that is a URL."""

    def __init__(
        self,
        records: ClientRecords,
        rules: ClientRules,
        outside: httpx2.AsyncClient,
        *,
        clock: Callable[[], datetime],
        hosts: AllowedClients | None = None,
        seconds: float = document_source.MOST_SECONDS,
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._records = records
        self._rules = rules
        self._outside = outside
        self._hosts = hosts or AllowedClients()
        self._clock = clock
        self._seconds = seconds
        self._monotonic = monotonic
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._per_host = RateLimiter(MOST_PER_HOST, seconds=_MINUTE_SECONDS, monotonic=monotonic)
        self._per_address = RateLimiter(MOST_PER_ADDRESS, seconds=_HOUR_SECONDS, monotonic=monotonic)
        self._in_all = RateLimiter(MOST_IN_ALL, seconds=_HOUR_SECONDS, monotonic=monotonic)

    async def get(self, url: str, *, sender: str = "") -> Client:
        """Return the client of a URL; read its document first if that is due.

        `sender` is the address of the browser.

        Raises:
            OAuthRefusal: The URL is not allowed, or its document does not describe a supported client (status
                400), or the document cannot be read and never was (503).
            TooManyRequests: Too many documents are requested that were never read before.
        """
        host = document_source.host_of(url)
        if host is None:
            raise _invalid("The client's id is no address of a document: https, a host's name and a path.")
        if not self._hosts.allow_host(host):
            raise DocumentRefusal(
                "invalid_client",
                "The administrator does not allow clients of this host.",
                reason=ClientBarred,
            )
        kept = self._place(url)
        async with kept.lock:
            await self._renew(kept, url, host, sender)
        if isinstance(kept.outcome, Client):
            return kept.outcome
        refusal = kept.outcome
        raise DocumentRefusal(
            refusal.error, refusal.description, reason=refusal.reason, status=refusal.status
        )

    def _place(self, url: str) -> _Kept:
        kept = self._kept.setdefault(url, _Kept())
        self._kept.move_to_end(url)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return kept

    async def _renew(self, kept: _Kept, url: str, host: str, sender: str) -> None:
        if kept.until <= self._monotonic():
            kept.outcome, seconds = await self._read(url, host, sender)
            kept.until = self._monotonic() + seconds

    async def _read(self, url: str, host: str, sender: str) -> tuple[Client | _Refusal, float]:
        """Return what is known of a URL now, and for how many seconds."""
        known = await self._records.find(url)
        if known is None:
            self._spend(host, network_of(sender))
        try:
            document = await document_source.fetch(self._outside, url, seconds=self._seconds)
            client = self._client(url, document.fields)
        except DocumentUnavailable as failure:
            if known is None or self._clock() - known.created_at >= STALE:
                return _silent(url, host, failure), _PAUSE_SECONDS
            logger.warning(
                "the client's document at %s %s; the copy that is known is used", url, failure.detail
            )
            return known, _PAUSE_SECONDS
        except OAuthRefusal as refusal:
            reason = refusal.reason if isinstance(refusal, DocumentRefusal) else DocumentUnfit
            described = f"{refusal.description} (the client's document at {url})"
            return _Refusal(refusal.error, described, reason, refusal.status), _PAUSE_SECONDS
        await self._records.save(client)
        return client, document.fresh_seconds

    def _spend(self, host: str, sender: str) -> None:
        # Unauthenticated senders choose these URLs; documents that were read before are rarely requested. All
        # limits are checked before one is counted: a refused sender must not use up the limits of others.
        limiters = ((self._per_host, host), (self._per_address, sender), (self._in_all, _EVERYBODY))
        for limiter, key in limiters:
            limiter.check(key)
        for limiter, key in limiters:
            limiter.count(key)

    def _client(self, url: str, fields: Fields) -> Client:
        # §3: else anyone who can publish a file on some host could impersonate another client.
        if fields.get("client_id") != url:
            raise _invalid("The document at the client's id names another client_id.")
        _check_method(fields)
        described = client_fields.read(fields, self._rules)
        return Client(
            client_id=url,
            kind="document",
            name=described.name,
            redirect_uris=described.redirect_uris,
            auth_method="none",
            secret_hash=None,
            scopes=described.scopes,
            created_at=self._clock(),
            last_used_at=None,
            native=described.native,
            logo=described.logo,
        )


def _silent(url: str, host: str, failure: DocumentUnavailable) -> _Refusal:
    """Describe a document that cannot be read and, if the operator can change that, how."""
    advice = (
        "Try again in a minute."
        if failure.reason is DocumentUnfit
        else f"Let this server connect to {host} on port 443, name the proxy that may in CLIENT_METADATA_PROXY, or set "
        "CLIENT_METADATA_DOCUMENTS=false, so that clients register themselves."
    )
    sentence = f"The client's document at {url} {failure.detail}. {advice}"
    return _Refusal("temporarily_unavailable", sentence, failure.reason, 503)


def is_address(client_id: str) -> bool:
    """Tell whether an id has the form of a URL; ids that `/register` issues never do."""
    return "://" in client_id


def _check_method(fields: Fields) -> None:
    """Refuse shared secrets, which a public document cannot have (§4.1); accept `none` only.

    ChatGPT's document prefers `private_key_jwt` and lists `none` beside it.
    """
    method = fields.get("token_endpoint_auth_method")
    if str(method).startswith("client_secret") or {"client_secret", "client_secret_expires_at"} & set(fields):
        raise _invalid("A client with a document has no secret; its token_endpoint_auth_method is none.")
    listed = client_fields.words(fields.get("token_endpoint_auth_methods_supported")) or ()
    if method not in (None, "none") and "none" not in listed:
        raise _invalid(
            "This server knows clients with a document by PKCE alone, as token_endpoint_auth_method none."
        )


def _invalid(description: str) -> OAuthRefusal:
    return OAuthRefusal("invalid_client", description)
