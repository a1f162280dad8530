"""Distinguishes the content of a file from a web page of a proxy, such as its sign-in page."""

from typing import Final

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.version import Version

_PAGES: Final = ("text/html", "application/xhtml+xml")
#: In 32.0.1 every file has both; the second is missing in Nextcloud's debug mode.
_OF_NEXTCLOUD: Final = ("OC-ETag", "Content-Disposition")


def is_possible(response: httpx2.Response) -> bool:
    """Tell whether a response may be a page of a proxy: it is HTML, and no header identifies a file."""
    headers = response.headers
    return headers.get("Content-Type", "").startswith(_PAGES) and not any(
        name in headers for name in _OF_NEXTCLOUD
    )


def refuse(path: str, version: Version, known: Entry | None) -> None:
    """Raise unless the file itself is an HTML page in this version.

    Raises:
      NotNextcloud: The response differs from what Nextcloud says of the file.
    """
    is_file = (
        known is not None
        and known.content_type.startswith(_PAGES)
        and version.etag is not None
        and version.agrees_with(known.version)
    )
    if not is_file:
        raise not_content(path)


def not_content(path: str) -> errors.NotNextcloud:
    """Return the error for a page in place of content."""
    return errors.NotNextcloud(
        f"A web page came back instead of {quoted(path)}, such as the sign-in page of a proxy; it was not taken "
        "for the content. The administrator should let this server through the proxy in front of Nextcloud."
    )
