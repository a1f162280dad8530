"""The envelope around OCS answers: `{"ocs": {"meta": …, "data": …}}`."""

from collections.abc import Mapping
from typing import Generic, TypeVar

import httpx2
from pydantic import TypeAdapter

from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp, decoded

_T = TypeVar("_T")


class _Body(Answer, Generic[_T]):
    data: _T


class Envelope(Answer, Generic[_T]):
    """What every OCS answer comes in."""

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
    """Send JSON to version 2 of OCS, and open the envelope.

    Raises:
        ServerFault: The answer is no OCS envelope around what was asked for.
    """
    response = await http.request(
        method, f"/ocs/v2.php{path}", params={"format": "json"}, json=json, sentences=sentences
    )
    return decoded(response, kind).ocs.data


async def get(
    http: NextcloudHttp,
    path: str,
    kind: TypeAdapter[Envelope[_T]],
    *,
    params: Mapping[str, str | int] | None = None,
    sentences: Mapping[int, str] | None = None,
    timeout_seconds: float | None = None,
) -> tuple[_T, httpx2.Response]:
    """Ask version 2 of OCS, whose status codes are real, and open the envelope.

    Raises:
        ServerFault: The answer is no OCS envelope around what was asked for.
    """
    asked = {**(params or {}), "format": "json"}
    response = await http.request(
        "GET", f"/ocs/v2.php{path}", params=asked, sentences=sentences, timeout_seconds=timeout_seconds
    )
    return decoded(response, kind).ocs.data, response
