"""Reads the input of pages: ids, single values, and the forms of this server's own pages."""

import re
from collections.abc import Sequence
from urllib.parse import parse_qs

from starlette.requests import Request

from nextcloud_mcp_server.errors import ElicitationUnknown, FormRefused, InvalidInput, NoCookies

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LARGEST_FORM = 16_384
_MOST_FIELDS = 64


def one_id(values: Sequence[str]) -> str:
    """Return the only id of a parameter if it is well-formed; else raise as for an unknown one."""
    value = single(values)
    if value is None or not _ID.fullmatch(value):
        raise ElicitationUnknown("There is no such request.")
    return value


def single(values: Sequence[str]) -> str | None:
    """Return the only value of a parameter: of two, an attacker may have added either."""
    return values[0] if len(values) == 1 else None


def require_our_page(request: Request) -> None:
    """Refuse a form unless one of this server's own pages sent it.

    Raises:
        FormRefused: Another page sent it, or the request does not say which.
    """
    site = request.headers.get("sec-fetch-site")
    if site is None:
        own = f"{request.url.scheme}://{request.headers.get('host')}"
        ours = request.headers.get("origin") == own
    else:
        ours = site == "same-origin"
    if not ours:
        raise FormRefused("The form was sent by another page.")


def refused(request: Request) -> FormRefused:
    """Return the error for a form that was not made in this browser session, or long ago.

    Each page with a form sets a cookie, which the form is checked with.
    """
    if "cookie" not in request.headers:
        return NoCookies("The form came without any cookie.")
    return FormRefused("The form was made in another session, or is too old.")


async def read_form(request: Request) -> dict[str, list[str]]:
    """Read the fields of a form, each with all its values.

    Raises:
        InvalidInput: It is not a form of this server's pages.
    """
    if (
        request.headers.get("content-type", "").partition(";")[0].strip()
        != "application/x-www-form-urlencoded"
    ):
        raise InvalidInput("The form has a content type that this server does not read.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_FORM:
            raise InvalidInput("The form is larger than any that this server makes.")
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise InvalidInput("The form could not be read.") from error
