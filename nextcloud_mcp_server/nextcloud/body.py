"""Reads the body of a response within a size limit, counted after decompression."""

import zlib
from collections.abc import Mapping
from typing import Any, cast

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import error_mapping
from nextcloud_mcp_server.nextcloud.memory_permit import ResponseBytes
from nextcloud_mcp_server.nextcloud.sanitize import escaped_start

#: How much of a response is read where its beginning is enough.
_MOST_LOOKED_AT = 262_144
_ABOUT_THE_BODY = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
#: RFC 9110 §8.4.1.3: recipients treat both names as the same coding.
_GZIP = frozenset({"gzip", "x-gzip"})


def coding_of(response: httpx2.Response) -> str:
    """Return the content coding of a response; "" when it is not compressed."""
    written = response.headers.get("Content-Encoding", "").lower().split(",")
    codings = [coding for word in written if (coding := word.strip()) not in ("", "identity")]
    return ", ".join("gzip" if coding in _GZIP else coding for coding in codings)


def unasked(coding: str) -> errors.ServerFault:
    """Return the error for a response in a content coding that was not requested."""
    return errors.ServerFault(
        f"The answer is compressed with “{escaped_start(coding, 20)}”, which was not asked for and cannot be read "
        "here. The administrator should look at the compression settings of the proxy in front of Nextcloud."
    )


class _Body:
    """The decoded body so far."""

    def __init__(self, coding: str) -> None:
        self.data = bytearray()
        self._inflate = zlib.decompressobj(wbits=31) if coding else None

    @property
    def is_incomplete(self) -> bool:
        return self._inflate is not None and bool(self.data) and not self._inflate.eof

    def add(self, chunk: bytes, most: int) -> None:
        """Add a chunk; of a compressed body only until there is one byte more than `most`. The next call goes on."""
        inflate = self._inflate
        try:
            if inflate is None:
                self.data += chunk
            elif not inflate.eof:
                # What follows the end would be kept by the decompressor, without end.
                # A limit of 0 would be none.
                room = max(1, most + 1 - len(self.data))
                self.data += inflate.decompress(inflate.unconsumed_tail + chunk, room)
        except zlib.error:
            raise errors.ServerFault(
                f"Nextcloud's answer arrived damaged. {error_mapping.IN_DOUBT}"
            ) from None


async def read(
    response: httpx2.Response,
    max_bytes: int,
    *,
    cut: bool = False,
    counted: ResponseBytes | None = None,
) -> httpx2.Response:
    """Read a body of at most `max_bytes`; `cut` returns the beginning of a longer one.

    More than `max_bytes` is never held in memory. `counted` counts the body while it is read.

    Raises:
      ServerFault: The body is damaged, incomplete, or in a content coding that was not requested.
      TooLarge: The body is longer.
    """
    coding = coding_of(response)
    if coding not in ("", "gzip"):
        raise unasked(coding)
    body, received = _Body(coding), 0
    most = max_bytes if counted is None else counted.most(max_bytes)
    # The undecoded stream: httpx2 would inflate a whole chunk, however large the result.
    async for chunk in cast("httpx2.AsyncByteStream", response.stream):
        received += len(chunk)
        body.add(chunk, most)
        if counted is not None and len(body.data) <= max_bytes:
            await counted.count(len(body.data))
            most = counted.most(max_bytes)
            # Of a compressed body, what did not fit before.
            body.add(b"", most)
        if len(body.data) > max_bytes or received > max_bytes + _MOST_LOOKED_AT:
            if cut:
                break
            raise errors.TooLarge(
                "Nextcloud's answer is larger than this server reads at once. Ask for less."
            )
    if not cut and body.is_incomplete:
        raise errors.ServerFault(f"Nextcloud's answer arrived incomplete. {error_mapping.IN_DOUBT}")
    headers = [(name, value) for name, value in response.headers.raw if name.lower() not in _ABOUT_THE_BODY]
    return httpx2.Response(
        response.status_code,
        headers=headers,
        content=bytes(memoryview(body.data)[:max_bytes]),
        request=response.request,
    )


async def look(
    pool: httpx2.AsyncClient,
    method: str,
    url: httpx2.URL | str,
    *,
    headers: Mapping[str, str] | None = None,
    **options: Any,  # noqa: ANN401 - what httpx2 takes: params, json
) -> httpx2.Response:
    """Send one request without a credential, and read at most the beginning of its response.

    Raises:
      httpx2.HTTPError: There was no response, or it cannot be read.
    """
    request = pool.build_request(
        method, url, headers={"Accept-Encoding": "gzip", **(headers or {})}, **options
    )
    response = await pool.send(request, stream=True)
    try:
        return await read(response, _MOST_LOOKED_AT, cut=True)
    except errors.ServerFault as error:
        raise httpx2.DecodingError(str(error), request=request) from None
    finally:
        await response.aclose()
