"""How clients send their requests to our authorization server, read so that no two readers could differ."""

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
#: The one parameter that may be there several times (RFC 8707 §2).
_SEVERAL = "resource"

Form = Mapping[str, Sequence[str]]


async def body_of(request: Request, content_type: str, *, error: str = "invalid_request") -> bytes:
    """Read a body of this type whole.

    Raises:
        OAuthRefusal: It is of another type (400), or larger than any that is needed (413).
    """
    given = request.headers.getlist("content-type")
    # A body in another charset would be one thing to us and another one to anyone who stands before us.
    if len(given) != 1 or not _says(given[0], content_type):
        raise OAuthRefusal(error, f"Send the body as {content_type}, in UTF-8.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise OAuthRefusal(error, "The body is larger than this server takes.", status=413)
    return body


def _says(header: str, content_type: str) -> bool:
    given, _, parameters = header.lower().partition(";")
    charset = _CHARSET.search(parameters)
    return given.strip() == content_type and (charset is None or charset["name"] in _CHARSETS)


async def form_of(request: Request) -> Form:
    """Read a form (RFC 6749 §3.2, appendix B).

    Raises:
        OAuthRefusal: It is not one, or names something twice.
    """
    body = await body_of(request, _FORM)
    try:
        form = parse_qs(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise OAuthRefusal("invalid_request", "The form cannot be read.") from None
    if any(len(values) > 1 for name, values in form.items() if name != _SEVERAL):
        raise OAuthRefusal("invalid_request", "The form names something twice.")
    # A parameter without a value counts as not sent (RFC 6749 §3.2).
    return {name: kept for name, values in form.items() if (kept := [value for value in values if value])}


def only(form: Form, name: str) -> str | None:
    """Read a parameter that is there once at most."""
    return next(iter(form.get(name, ())), None)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client says that it is, and what it proves that with (RFC 6749 §2.3.1)."""

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
    # Both parts are form-encoded before they are joined; our ids and secrets look the same either way.
    return Credentials(unquote_plus(client_id), unquote_plus(secret) or None)
