"""Parses JSON responses: a large one in a thread, so that other requests are served meanwhile."""

from functools import partial
from typing import TypeVar

import httpx2
from pydantic import TypeAdapter, ValidationError

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import untrusted
from nextcloud_mcp_server.nextcloud import error_mapping
from nextcloud_mcp_server.nextcloud.aside import aside

_T = TypeVar("_T")
#: Elements of a JSON response: each becomes objects of hundreds of bytes. A list of 50,000 notes has 500,000.
MAX_ELEMENTS = 600_000


def decoded(response: httpx2.Response, kind: TypeAdapter[_T]) -> _T:
    """Parse a JSON response into a model.

    Raises:
      ServerFault: It does not fit the model.
      TooLarge: It has too many elements.
    """
    if untrusted.has_more_elements(response.content, MAX_ELEMENTS):
        raise errors.TooLarge(
            "Nextcloud's answer has more parts than this server reads at once. Ask for less."
        )
    try:
        return kind.validate_json(response.content)
    except ValidationError:
        # The text of the error would quote the response, which may contain anything.
        raise errors.ServerFault(
            f"Nextcloud answered something unreadable here. {error_mapping.IN_DOUBT} If it stays, the administrator "
            "should check Nextcloud's log."
        ) from None


async def decoded_aside(response: httpx2.Response, kind: TypeAdapter[_T], *, uid: str) -> _T:
    """Parse a response as `decoded` does; a large one `aside`, one at a time for each user `uid`.

    Raises:
      ServerFault: It does not fit the model.
      TooLarge: It has too many elements.
    """
    return await aside(partial(decoded, response, kind), uid=uid, size=len(response.content))
