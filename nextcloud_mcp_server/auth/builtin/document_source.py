"""Fetches the document that a client's id points to (OAuth Client ID Metadata Document §3, §5)."""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import anyio
import httpx2

from nextcloud_mcp_server.auth import strict_json
from nextcloud_mcp_server.auth.builtin.pinned import AddressRefused, HostUnknown
from nextcloud_mcp_server.errors import (
    AuthorizeRefused,
    DocumentHostRefused,
    DocumentRefusal,
    DocumentTimedOut,
    DocumentUnfit,
    DocumentUnreachable,
)

MOST_BYTES = 5_120
MOST_SECONDS = 5.0
LONGEST_URL = 500

#: Seconds for which a document is cached: at least, without a cache header, at most.
SHORTEST, USUAL, LONGEST = 300.0, 3_600.0, 86_400.0

_OK = 200
_GONE = frozenset({404, 410})
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_TOP_LABEL = r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])"
_CHARACTERS = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
_URL = re.compile(
    rf"https://(?P<host>(?:{_LABEL}\.)+{_TOP_LABEL})"
    rf"(?P<path>(?:/{_CHARACTERS}*)+)(?:\?(?:{_CHARACTERS}|[/?])*)?"
)
_DOTS = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)
_JSON = re.compile(r"application/(?:[a-z0-9.-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
_MAX_AGE = re.compile(r"max-age\s*=\s*\"?(?P<seconds>[0-9]{1,9})", re.IGNORECASE)
_NOT_KEPT = re.compile(r"\bno-(?:store|cache)\b", re.IGNORECASE)


class DocumentUnavailable(Exception):
    """The document could not be read now; a copy that was read before may still be used.

    `detail` is a phrase that follows the document's URL in a sentence; `reason` is the error for the user's
    browser.
    """

    def __init__(self, reason: type[AuthorizeRefused], detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a document, and for how many seconds it may be cached."""

    fields: Mapping[str, object]
    fresh_seconds: float


def host_of(client_id: str) -> str | None:
    """Return the host of a client id that is a document's URL (§3); None when it is no such URL.

    Stricter than the draft: host names only, in lower case, on https' own port. The user must be able to read
    the host, and an attacker must not be able to probe ports through this server.
    """
    found = _URL.fullmatch(client_id) if len(client_id) <= LONGEST_URL else None
    if found is None or found["path"] == "/" or any(map(_DOTS.fullmatch, found["path"].split("/"))):
        return None
    return found["host"]


async def fetch(outside: httpx2.AsyncClient, url: str, *, seconds: float = MOST_SECONDS) -> Document:
    """Read a document within so many seconds; `outside` comes from `pinned.open_outside`.

    Raises:
        DocumentRefusal: The document does not exist any more, or its host is not allowed.
        DocumentUnavailable: No answer, or not a valid one; a later request may succeed.
    """
    # Compressed answers could grow without end, and these are small.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    try:
        # One limit on the whole request: a server that sends one byte a second never exceeds the other limits.
        with anyio.fail_after(seconds):
            async with outside.stream("GET", url, headers=headers) as response:
                return await _read(response)
    except AddressRefused as error:
        raise DocumentRefusal(
            "invalid_client",
            f"The client's document is not on a host that this server asks: {error}.",
            reason=DocumentHostRefused,
        ) from None
    except (TimeoutError, httpx2.TimeoutException):
        raise DocumentUnavailable(DocumentTimedOut, "did not come in time") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise DocumentUnavailable(DocumentUnreachable, f"cannot be reached: {_why(error)}") from None


def _why(error: Exception) -> str:
    """Describe a failed request.

    The library's own messages are not used: they may repeat text of the other server or of a proxy.
    """
    if isinstance(error, HostUnknown):
        return "the name of its host is not known here"
    if isinstance(error, httpx2.ProxyError):
        return "the proxy does not let it through"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "its certificate is not trusted, as when a proxy decrypts the connection"
        cause = cause.__cause__ or cause.__context__
    return "the connection was not made, or broke off"


async def _read(response: httpx2.Response) -> Document:
    if response.status_code in _GONE:
        raise DocumentRefusal(
            "invalid_client", "There is no document at the client's id.", reason=DocumentUnfit
        )
    if response.status_code != _OK:
        raise DocumentUnavailable(DocumentUnfit, f"was answered with status {response.status_code}")
    if not _JSON.fullmatch(response.headers.get("Content-Type", "")):
        raise DocumentUnavailable(DocumentUnfit, "has a Content-Type other than JSON")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise DocumentUnavailable(DocumentUnfit, "is compressed, which was not asked for")
    body = bytearray()
    async for chunk in cast("httpx2.AsyncByteStream", response.stream):
        body += chunk
        if len(body) > MOST_BYTES:
            raise DocumentUnavailable(DocumentUnfit, f"is larger than {MOST_BYTES} bytes")
    try:
        fields: Any = strict_json.read(bytes(body))
    except ValueError:
        raise DocumentUnavailable(DocumentUnfit, "is not readable as JSON") from None
    if not isinstance(fields, dict):
        raise DocumentUnavailable(DocumentUnfit, "is no JSON object")
    fresh = _fresh_seconds(response.headers.get("Cache-Control", ""))
    return Document(cast("dict[str, object]", fields), fresh)


def _fresh_seconds(cache_control: str) -> float:
    if _NOT_KEPT.search(cache_control):
        return SHORTEST
    found = _MAX_AGE.search(cache_control)
    return USUAL if found is None else min(max(float(found["seconds"]), SHORTEST), LONGEST)
