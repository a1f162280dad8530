"""The envelope of OCS responses: `{"ocs": {"meta": …, "data": …}}`."""

from collections.abc import Mapping
from typing import Generic, TypeVar

import httpx2
from pydantic import TypeAdapter

from nextcloud_mcp_server.nextcloud.decoding import decoded_aside
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp

_T = TypeVar("_T")


class _Body(Answer, Generic[_T]):
    data: _T


class Envelope(Answer, Generic[_T]):
    """The envelope of every OCS response."""

    ocs: _Body[_T]


async def send(
    http: NextcloudHttp,
    method: str,
    path: str,
    kind: TypeAdapter[Envelope[_T]],
    *,
    json: object,
    sentences: Mapping[int, str] | None = None,
) -> _T:
    """Send JSON to OCS version 2 and return the data in the envelope.

    Raises:
      ServerFault: The response is not an OCS envelope with the expected data.
    """
    response = await http.request(
        method, f"/ocs/v2.php{path}", params={"format": "json"}, json=json, sentences=sentences
    )
    return (await decoded_aside(response, kind, uid=http.uid)).ocs.data


async def get(
    http: NextcloudHttp,
    path: str,
    kind: TypeAdapter[Envelope[_T]],
    *,
    params: Mapping[str, str | int] | None = None,
    sentences: Mapping[int, str] | None = None,
    timeout_seconds: float | None = None,
) -> tuple[_T, httpx2.Response]:
    """Fetch from OCS version 2, whose HTTP status codes are real; return the data and the response.

    Raises:
      ServerFault: The response is not an OCS envelope with the expected data.
    """
    asked = {**(params or {}), "format": "json"}
    response = await http.request(
        "GET", f"/ocs/v2.php{path}", params=asked, sentences=sentences, timeout_seconds=timeout_seconds
    )
    return (await decoded_aside(response, kind, uid=http.uid)).ocs.data, response
