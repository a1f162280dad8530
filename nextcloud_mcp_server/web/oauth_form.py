"""Parses the requests of clients to the authorization server, strictly, so that no two parsers differ."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote_plus

from starlette.requests import Request

from nextcloud_mcp_server.errors import OAuthRefusal

MOST_BYTES = 65_536
_MOST_FIELDS = 64
_FORM = "application/x-www-form-urlencoded"
_CHARSET = re.compile(r"\bcharset\s*=\s*\"?(?P<name>[^\s;\"]*)")
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii"})
#: The one parameter that may be repeated (RFC 8707 §2).
_SEVERAL = "resource"

Form = Mapping[str, Sequence[str]]


async def body_of(request: Request, content_type: str, *, error: str = "invalid_request") -> bytes:
    """Read a whole body of this content type.

    Raises:
        OAuthRefusal: It has another type (400), or is larger than any valid request (413).
    """
    given = request.headers.getlist("content-type")
    # A body in another charset could be read differently by a proxy in front of this server.
    if len(given) != 1 or not _says(given[0], content_type):
        raise OAuthRefusal(error, f"Send the body as {content_type}, in UTF-8.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise OAuthRefusal(error, "The body is larger than this server accepts.", status=413)
    return bytes(body)


def _says(header: str, content_type: str) -> bool:
    given, _, parameters = header.lower().partition(";")
    charset = _CHARSET.search(parameters)
    return given.strip() == content_type and (charset is None or charset["name"] in _CHARSETS)


async def form_of(request: Request) -> Form:
    """Parse a form (RFC 6749 §3.2, appendix B).

    Raises:
        OAuthRefusal: It is no form, or has a parameter twice.
    """
    body = await body_of(request, _FORM)
    try:
        form = parse_qs(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise OAuthRefusal("invalid_request", "The form cannot be read.") from None
    if any(len(values) > 1 for name, values in form.items() if name != _SEVERAL):
        raise OAuthRefusal("invalid_request", "The form has a parameter twice.")
    # A parameter without a value counts as not sent (RFC 6749 §3.2).
    return {name: kept for name, values in form.items() if (kept := [value for value in values if value])}


def only(form: Form, name: str) -> str | None:
    """Return the value of a parameter that must not be repeated; None if it is absent."""
    return next(iter(form.get(name, ())), None)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The id of a client, and the secret that it sent (RFC 6749 §2.3.1)."""

    client_id: str
    secret: str | None = field(repr=False)

    @classmethod
    def of(cls, request: Request, form: Form) -> "Credentials":
        """Read them from the header or the form, never from both.

        Raises:
            OAuthRefusal: They are missing, there twice, or cannot be read.
        """
        named, secret = only(form, "client_id"), only(form, "client_secret")
        headers = request.headers.getlist("authorization")
        if not headers:
            if named is None:
                raise OAuthRefusal("invalid_client", "The client_id is missing.", status=401)
            return cls(named, secret)
        basic = _basic(headers)
        if secret is not None or named not in (None, basic.client_id):
            raise OAuthRefusal("invalid_request", "Authenticate in one way: by the header, or in the form.")
        return basic


def _basic(headers: Sequence[str]) -> Credentials:
    scheme, _, given = headers[0].partition(" ")
    try:
        read = base64.b64decode(given.strip(), validate=True).decode()
    except (ValueError, binascii.Error):
        read = ""
    client_id, colon, secret = read.partition(":")
    if len(headers) > 1 or scheme.lower() != "basic" or not colon or not client_id:
        raise OAuthRefusal(
            "invalid_client", "The Authorization header cannot be read: send Basic, once.", status=401
        )
    # Both parts are form-encoded before they are joined; this server's ids and secrets are the same in both
    # forms.
    return Credentials(unquote_plus(client_id), unquote_plus(secret) or None)
