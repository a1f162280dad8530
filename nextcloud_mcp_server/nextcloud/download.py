"""Streams whole files of one user, and fetches previews."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import byte_range, dav, entries, file_errors, sign_in_page
from nextcloud_mcp_server.nextcloud import etag as etags
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.version import Version

#: The total time limit of a download, in seconds; until then it continues as long as bytes arrive.
_STREAM_SECONDS: Final = 21_600.0
#: Edges of the square that a preview must fit, tried until the preview is small enough.
_EDGES: Final = (1024, 512, 256)


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is being received; `pieces` can be read once."""

    path: str
    total: int | None
    content_type: str
    version: Version
    pieces: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview of a file, made by Nextcloud; at most `edge` pixels wide and high."""

    data: bytes
    edge: int


class DownloadClient:
    """Fetches whole files of one user."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http
        self._tree = dav.Tree.of("files", http.uid)

    @asynccontextmanager
    async def open(self, path: str, *, known: Entry | None = None) -> AsyncGenerator[Download]:
        """Open a file as a stream, without storing it. `known` is the entry of the file, if already fetched.

        Raises:
          NotNextcloud: The response is a web page of something before Nextcloud.
          NotFound: No such file.
          Unreachable: The connection broke before the end; also raised while reading.
        """
        segments = dav.split(path)
        shown = dav.join(segments)
        async with self._http.stream(
            "GET",
            self._tree.url(segments),
            headers={"Accept": "*/*"},
            timeout_seconds=_STREAM_SECONDS,
            sentences={404: file_errors.missing(shown)},
        ) as response:
            headers = response.headers
            total = entries.number(headers.get("Content-Length", ""))
            modified_at = entries.http_date(headers.get("Last-Modified", ""))
            kind = headers.get("Content-Type", "").partition(";")[0].strip()
            version = Version.of(etags.of(headers), total, modified_at)
            if sign_in_page.is_possible(response):
                sign_in_page.refuse(shown, version, known)
            if response.status_code == byte_range.PARTIAL:
                raise errors.ServerFault(
                    "Nextcloud answered a part of the file though all of it was asked for."
                )
            yield Download(shown, total, kind, version, _pieces(response, shown, total))

    async def preview(self, file_id: str, *, max_bytes: int) -> Preview | None:
        """Fetch a preview of at most `max_bytes`; None when Nextcloud has no preview for this file.

        Read in core/Controller/PreviewController.php of 32.0.1: `a` keeps the aspect ratio, `forceIcon=0` requests no
        icon in place of a preview. It answers 404 `[]` where there is none (also recorded), 400 where it cannot be
        made, 403 where the owner forbids downloads.
        """
        for edge in _EDGES:
            params = {"fileId": file_id, "x": edge, "y": edge, "a": 1, "forceIcon": 0}
            try:
                response = await self._http.request(
                    "GET",
                    "/index.php/core/preview",
                    params=params,
                    headers={"Accept": "image/*", "Accept-Encoding": "identity"},
                    max_bytes=max_bytes,
                )
            except errors.TooLarge:
                continue
            except (errors.NotFound, errors.Forbidden, errors.InvalidName, errors.ServerFault):
                return None
            if sign_in_page.is_possible(response):
                raise sign_in_page.not_content("the preview")
            return Preview(response.content, edge)
        return None


async def _pieces(response: httpx2.Response, path: str, total: int | None) -> AsyncIterator[bytes]:
    came = 0
    async for piece in response.aiter_raw():
        came += len(piece)
        yield piece
    if total is not None and came != total:
        raise file_errors.broken(came, total, path)
