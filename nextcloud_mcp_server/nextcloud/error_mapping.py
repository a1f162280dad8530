"""Maps the status of a Nextcloud response to an exception; the only place that does.

A status alone is ambiguous: Nextcloud answers a lock with 500, a disabled account with 503 or 401, and a stripped
header with 412. The bodies distinguish them.
"""

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final, cast

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import character_references, untrusted
from nextcloud_mcp_server.nextcloud import etag
from nextcloud_mcp_server.nextcloud.retry import Cause, Passing
from nextcloud_mcp_server.nextcloud.sanitize import quoted

#: For every request that was sent but whose response did not arrive.
IN_DOUBT = "If this was a change, read again before repeating it: it may have happened."

#: Without the current etag: a model that repeats its change with it overwrites what another user has written.
CHANGED: Final = (
    "It was changed since it was read, so nothing was written. Read it again, look at what has changed, and make "
    "the change in what is there now, with the etag that this read answers."
)
_SENTENCES: Mapping[int, str] = {
    400: "Nextcloud does not accept this name or request{reason}. Change it and call again.",
    401: "Nextcloud no longer accepts the access that was granted. "
    "Call request_nextcloud_access to ask for it again.",
    403: "Nextcloud does not allow this{reason}. The person may lack the permission; do not retry unchanged.",
    404: "Nothing is there, or it belongs to another user. List or search to find the right one.",
    405: "Nextcloud does not allow this operation there{reason}.",
    409: "The state of the target does not allow this{reason}. Check that the parent folder exists.",
    412: CHANGED,
    413: "Nextcloud does not take anything this large. Make it smaller.",
    416: "It ends before the part that was asked for. Read again from the start.",
    423: "It is locked: another user or app is writing it right now. Wait some seconds and call again.",
    429: (
        "Nextcloud holds off this server's address after too many failed logins{wait}. Do not retry now; the "
        "administrator can add the address to Nextcloud's brute-force allow-list."
    ),
    507: "The storage is full or its quota is used up, so nothing was written{reason}. Free some space first.",
}
_TOO_OFTEN = (
    "Nextcloud allows this only so many times within some minutes, and did not do it now. Do not retry now; "
    "go on with it in {wait}."
)
_KINDS: Mapping[int, type[errors.NextcloudError]] = {
    400: errors.InvalidName,
    401: errors.CredentialRejected,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.Forbidden,
    409: errors.Conflict,
    413: errors.TooLarge,
    415: errors.InvalidName,
    416: errors.OutOfRange,
    422: errors.InvalidName,
    423: errors.Locked,
    507: errors.StorageFull,
}
#: The status of an exception of Sabre's or Nextcloud's by its class, from `getHTTPCode` of that class.
_OF_EXCEPTION: Mapping[str, int] = {
    "BadRequest": 400,
    "Forbidden": 403,
    "NotFound": 404,
    "FileLocked": 423,
    "Locked": 423,
    "InsufficientStorage": 507,
    "ServerMaintenanceMode": 503,
    "ServiceUnavailable": 503,
}
_BAD_REQUESTS = (415, 422)
_NOTHING: Final = frozenset({"", "[]", "{}"})
_GATEWAYS = (502, 504)
_UNAVAILABLE = 503
#: Names and messages of exceptions; Nextcloud writes them in the language of the request.
_STORAGE = re.compile(r"Storage|Mount|mount")
_MESSAGE = re.compile(r"<s:message>([^<]*)</s:message>")
#: A longer reason is cut.
_LONGEST_REASON: Final = 2_000
_OF_FILES = re.compile(r"/remote\.php/dav/(?:files|trashbin|versions)/[^/]+(/.*)?$")
#: Nextcloud's message for a quota that is used up (`QuotaPlugin` of its app `dav`).
_ROOM = re.compile(r"(?<!\d)(\d{1,20}) required, (\d{1,20}) available")
_APP_ROUTE = re.compile(r"/index\.php/apps/([a-z][a-z0-9_]*)/")


def from_response(response: httpx2.Response, sentences: Mapping[int, str]) -> errors.NextcloudError:
    """Map a response with status ≥ 400, whose body was read; `sentences` replaces messages by status."""
    special = _special(response, sentences)
    if special is not None:
        return special
    error = _by_status(response, sentences)
    error.reason = _words(response)
    return error


def _by_status(response: httpx2.Response, sentences: Mapping[int, str]) -> errors.NextcloudError:
    status = response.status_code
    kind = _KINDS.get(status)
    if kind is None:
        return errors.ServerFault(
            sentences.get(status) or f"Nextcloud failed to answer this ({status}). Try later."
        )
    sentence = sentences.get(status) or _SENTENCES[400 if status in _BAD_REQUESTS else status]
    # Not `format`: a sentence may contain the name of a file, which may contain braces.
    return kind(sentence.replace("{reason}", _reason(response)))


def from_second_document(
    tail: bytes, response: httpx2.Response, sentences: Mapping[int, str]
) -> errors.NextcloudError | None:
    """Map an error document that follows a multistatus, whose status was already sent.

    The error means the same as the status that the server could no longer send. Returns None when the end of the
    response holds no such error.
    """
    document = tail[tail.rfind(b"<?xml") :]
    found = re.search(rb"<s:exception>([^<]{1,200})</s:exception>", document)
    status = (
        None if found is None else _OF_EXCEPTION.get(found[1].decode(errors="replace").rpartition("\\")[2])
    )
    if status is None:
        return None
    read = httpx2.Response(status, content=document, request=response.request)
    return from_response(read, sentences)


def refuse_page(response: httpx2.Response) -> None:
    """Raise for a web page in place of a confirmation, such as the sign-in page of a proxy.

    Nextcloud confirms some changes with an empty body, which has the type of a page too.
    """
    if response.is_success and _is_page(response) and response.content.lstrip()[:1] == b"<":
        raise errors.NotNextcloud(
            "A web page came back instead of Nextcloud's answer, so it is not known whether this was done: read "
            "again before repeating it. The administrator should check the proxy in front of Nextcloud."
        )


def passing(response: httpx2.Response, error: errors.NextcloudError) -> Passing | None:
    """Return why a repetition may help: a lock, a gateway error, a short wait; None otherwise.

    Maintenance is not repeated.
    """
    wait = _retry_after(response)
    if isinstance(error, errors.Locked):
        return Passing(Cause.REFUSED, wait)
    match response.status_code:
        case 502:
            return Passing(Cause.GATEWAY, wait)
        case 503 if type(error) is errors.Unavailable:
            # A server that names a time to come back has refused the request and done nothing.
            return Passing(Cause.GATEWAY if wait is None else Cause.REFUSED, wait)
        case 504:
            return Passing(Cause.LOST, wait)
        case _:
            return None


def is_of_gateway(response: httpx2.Response) -> bool:
    """Tell whether a response may come from a gateway, and so says nothing about a credential."""
    return response.status_code in {429, *_GATEWAYS, _UNAVAILABLE}


def storage_of(response: httpx2.Response) -> str | None:
    """Return the path whose storage may be offline; "" for all files, None for other errors.

    Nextcloud answers 503 for everything on an external storage that it cannot reach (`Storage is temporarily not
    available`, lib/private of its app `dav`), and for maintenance.
    """
    if response.status_code != _UNAVAILABLE:
        return None
    text = response.text
    if "StorageNotAvailable" not in text and not any(map(_STORAGE.search, _MESSAGE.findall(text))):
        return None
    found = _OF_FILES.search(response.request.url.path)
    return None if found is None else (found[1] or "").strip("/")


def of_storage(
    shown: str, response: httpx2.Response, status: httpx2.Response
) -> errors.NextcloudError | None:
    """Return the error for an offline storage or Nextcloud; None when `status.php` does not tell which."""
    body = _json(status)
    if "maintenance" not in body:
        return None
    if body["maintenance"] or body.get("needsDbUpgrade"):
        return _maintenance()
    what = (
        "An external storage of this account"
        if not shown
        else f"The external storage {quoted(shown)}"
        if "/" not in shown
        else f"The external storage that holds {quoted(shown)}"
    )
    return errors.StorageOffline(
        f"{what} is offline{_reason(response)}. Nextcloud itself works, and so do all other folders. Try this one "
        "again later; the person who set up the storage can look at it."
    )


def _special(  # noqa: C901, PLR0911  # a table, one row per meaning
    response: httpx2.Response, sentences: Mapping[int, str]
) -> errors.NextcloudError | None:
    """Map the statuses whose meaning depends on the body or the request."""
    status, text = response.status_code, response.text
    match status:
        case 400 if "rusted domain" in text:
            return errors.NotNextcloud(
                "Nextcloud does not know itself by the configured name. Ask the administrator to add that "
                "host to trusted_domains in Nextcloud's config.php, or to correct NEXTCLOUD_HOST."
            )
        case 400 | 497 if "plain HTTP request" in text or "speaking plain HTTP" in text:
            return errors.NotNextcloud(
                "NEXTCLOUD_HOST begins with http://, but https:// is spoken there: correct the address."
            )
        case 401 if "Account disabled" in text:
            return _disabled()
        case 404 if _is_page(response) and (route := _APP_ROUTE.search(response.request.url.path)):
            return errors.NotFound(f"The app “{route[1]}” is not installed or not enabled on this Nextcloud.")
        case 405 if response.request.method == "MKCOL":
            return errors.AlreadyExists("Something by that name exists there already.")
        case 412 if status in sentences and "/ocs/" in response.request.url.path and "CSRF" not in text:
            # OCS has no etags: Talk answers 412 for a closed lobby.
            return errors.Forbidden(sentences[status])
        case 412:
            return _precondition(response, sentences)
        case 429:
            return _throttled(response)
        case 507 if room := _ROOM.search(text):
            return errors.StorageFull(
                f"This needs {room[1]} bytes and the quota leaves {room[2]}, so nothing was written: free some space "
                "first.",
                has_numbers=True,
            )
        case 500 if "LockedException" in text:
            return errors.Locked(_SENTENCES[423])
        case 502 | 503 | 504:
            return _unavailable(response)
        case _:
            return None


def _throttled(response: httpx2.Response) -> errors.NextcloudError:
    wait = _retry_after(response)
    if response.text.strip() in _NOTHING:
        # Nextcloud always sends a message for too many failed logins. With an empty body, or an empty list as JSON
        # (`RateLimitingMiddleware` of Nextcloud), it answers an action that is repeated too often, such as the
        # twenty-first share in ten minutes.
        pause = "ten minutes" if wait is None else _seconds(wait)
        return errors.Throttled(_TOO_OFTEN.format(wait=pause), retry_after_seconds=wait)
    pause = "" if wait is None else f"; it asks to wait {_seconds(wait)}"
    return errors.Throttled(_SENTENCES[429].format(wait=pause), retry_after_seconds=wait)


def _precondition(response: httpx2.Response, sentences: Mapping[int, str]) -> errors.NextcloudError:
    text = response.text
    if "CSRF check failed" in text:
        return errors.ServerFault(
            "A proxy in front of Nextcloud removes the OCS-APIRequest header. Ask the administrator "
            "to let it through."
        )
    if "Overwrite</s:header>" in text or "If-None-Match</s:header>" in text:
        return errors.AlreadyExists(
            "Something by that name exists there already, and nothing was overwritten. Choose another name, "
            "or read it and pass its etag to overwrite it."
        )
    if "the resource did not exist" in text:
        return errors.NotFound(sentences.get(404) or _SENTENCES[404])
    current = _current_etag(response)
    return errors.EtagMismatch(sentences.get(412) or CHANGED, current_etag=current)


def _current_etag(response: httpx2.Response) -> str | None:
    """Return the current etag: from a header, or from the body (Notes answers with the current note)."""
    found = etag.of(response.headers) or _json(response).get("etag")
    return etag.known(found) if isinstance(found, str) else None


def _unavailable(response: httpx2.Response) -> errors.Unavailable:
    if "DisabledUserException" in response.text:
        return _disabled()
    if (
        response.headers.get("X-Nextcloud-Maintenance-Mode") == "1"
        or "ServerMaintenanceMode" in response.text
    ):
        return _maintenance()
    if response.status_code in _GATEWAYS:
        return errors.Unavailable(
            f"The proxy in front of Nextcloud got no answer from it. Try again in a minute. {IN_DOUBT}"
        )
    wait = _retry_after(response)
    when = "in a minute" if wait is None else f"in {_seconds(wait)}"
    return errors.Unavailable(f"Nextcloud cannot answer right now. Try again {when}.")


def _maintenance() -> errors.Maintenance:
    return errors.Maintenance("Nextcloud is in maintenance mode. Nothing is lost; try again in some minutes.")


def _disabled() -> errors.AccountDisabled:
    return errors.AccountDisabled(
        "This Nextcloud account is disabled. Only its administrator can enable it again."
    )


def _is_page(response: httpx2.Response) -> bool:
    # Tables answers an unknown table with an empty body, which has the type of a page.
    return response.headers.get("Content-Type", "").startswith("text/html") and bool(response.content)


def _reason(response: httpx2.Response) -> str:
    """Return Nextcloud's reason as a clause; empty without one, or when it contains a URL."""
    words = _words(response)
    return f" (it says: {words[:200]})" if words and "://" not in words else ""


def _words(response: httpx2.Response) -> str:
    """Return Nextcloud's reason in its own words; empty without one."""
    document = _json(response)
    ocs = document.get("ocs")
    meta = cast("dict[str, object]", ocs).get("meta") if isinstance(ocs, dict) else None
    holder = cast("dict[str, object]", meta) if isinstance(meta, dict) else document
    found = holder.get("message")
    if not isinstance(found, str):
        match = _MESSAGE.search(response.text)
        found = character_references.unescape(match[1][:_LONGEST_REASON]) if match else ""
    return " ".join(found[:_LONGEST_REASON].split()).rstrip(".")


def _json(response: httpx2.Response) -> dict[str, object]:
    try:
        parsed = untrusted.read_json(response.content)
    except ValueError:
        return {}
    return cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}


def _seconds(wait: float) -> str:
    """Return a waiting time in words, at least one second: after 0 all clients would return at once."""
    whole = max(1, math.ceil(wait))
    return f"{whole} second" if whole == 1 else f"{whole} seconds"


def _retry_after(response: httpx2.Response) -> float | None:
    """Parse `Retry-After` (RFC 9110 §10.2.3), in seconds.

    A date is compared with the `Date` of the response.
    """
    text = response.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:6])
    try:
        until, now = parsedate_to_datetime(text), parsedate_to_datetime(response.headers.get("Date", ""))
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None
