"""Parses JSON responses: a large one in a thread, so that other requests are served meanwhile."""

from functools import partial
from typing import TypeVar

import httpx2
from pydantic import TypeAdapter

from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.http import decoded

_T = TypeVar("_T")


async def decoded_aside(response: httpx2.Response, kind: TypeAdapter[_T], *, uid: str) -> _T:
    """Parse a response as `decoded` does; a large one `aside`, one at a time for each user `uid`.

    Raises:
      ServerFault: It does not fit the model.
      TooLarge: It has too many elements.
    """
    return await aside(partial(decoded, response, kind), uid=uid, size=len(response.content))
