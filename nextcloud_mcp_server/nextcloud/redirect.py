"""Decides which redirects of a response may be followed: almost none."""

from urllib.parse import urljoin, urlsplit

import httpx2

from nextcloud_mcp_server import errors


def followed(response: httpx2.Response, *, last: bool) -> str:
    """Return the URL of an allowed redirect: the same URL with https, or with a trailing slash.

    Any other redirect would send the Authorization header to an address that is not configured.
    """
    address = str(response.request.url)
    here, there = urlsplit(address), urlsplit(urljoin(address, response.headers.get("Location", "")))
    upgraded = (
        (here.scheme, there.scheme) == ("http", "https")
        and here.hostname == there.hostname
        and (here.port, there.port) == (None, None)
    )
    same_place = there.path in {here.path, f"{here.path}/"} and there.query == here.query
    same_origin = (here.scheme, here.netloc) == (there.scheme, there.netloc)
    moved = here != there and same_place and (upgraded or same_origin)
    if response.request.method == "GET" and moved and not last:
        return there.geturl()
    if same_origin:
        raise errors.NotNextcloud(
            "Nextcloud redirects this request instead of answering it. The administrator should check "
            "the proxy in front of it and NEXTCLOUD_HOST."
        )
    raise errors.NotNextcloud(
        f"Nextcloud redirects to {there.scheme} on {there.hostname or 'no host'}, and "
        "the access is not sent there. Set NEXTCLOUD_HOST to the address that browsers end up at."
    )
