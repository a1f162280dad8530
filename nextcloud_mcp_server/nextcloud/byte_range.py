"""Takes part of a file from a GET response, with no more than that part in memory."""

import re
from dataclasses import dataclass
from typing import Final

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import entries, file_errors
from nextcloud_mcp_server.nextcloud import etag as etags
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.version import Version

#: The status of a response with part of a file (RFC 9110 §15.3.7).
PARTIAL: Final = 206
#: Range units are case-insensitive (RFC 9110 §14.1).
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,20})-(\d{1,20})/(\d{1,20}|\*)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some bytes of a file, with what the response says about the whole file."""

    path: str
    data: bytes
    offset: int
    total: int | None
    content_type: str
    version: Version

    @property
    def is_last(self) -> bool:
        """Tell whether the file ends with these bytes."""
        return self.total is None or self.offset + len(self.data) >= self.total


async def take(response: httpx2.Response, path: str, *, offset: int, length: int) -> Chunk:
    """Read `length` bytes from byte `offset` on, whether or not the server honoured the range.

    Raises:
      InvalidInput: The path is a folder, or the file ends before `offset`.
    """
    headers = response.headers
    version = Version.of(etags.of(headers), None, entries.http_date(headers.get("Last-Modified", "")))
    start, sent, total = _declared(response)
    if start > offset or (total and sent and start + sent <= offset < total):
        raise errors.ServerFault("Nextcloud answered another part of the file than was asked for: try again.")
    data = await _cut(response, skip=offset - start, length=length)
    if not data and version.etag is None and version.seconds is None:
        # Nextcloud answers a GET of a folder with an empty page without etag or modification time.
        raise errors.InvalidInput(f"{quoted(path)} is a folder: list it with nc_files_list_folder.")
    declared = min(length, max(0, start + sent - offset)) if sent is not None else 0
    if len(data) < declared:
        # Without this, paging would never end, or end too early.
        raise file_errors.broken(len(data), declared, path)
    if not data and offset:
        raise errors.InvalidInput(f"{quoted(path)} ends before byte {offset}.")
    if total is None and sent is None and len(data) < length:
        # Nextcloud sends no length for an empty file (32.0.1, nginx); the bytes received are the whole file.
        total = offset + len(data)
    sized = Version(version.etag, total, version.seconds)
    return Chunk(path, data, offset, total, headers.get("Content-Type", "").partition(";")[0].strip(), sized)


def _declared(response: httpx2.Response) -> tuple[int, int | None, int | None]:
    """Return the first byte, the length and the file's size that a response declares.

    Raises:
      ServerFault: It is partial content without a valid Content-Range (RFC 9110 §15.3.7).
    """
    headers = response.headers
    if response.status_code != PARTIAL:
        total = entries.number(headers.get("Content-Length", ""))
        return 0, total, total
    partial = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if partial is None or int(partial[2]) < int(partial[1]):
        raise errors.ServerFault("Nextcloud answered a part of the file and not which: try again.")
    first = int(partial[1])
    return first, int(partial[2]) + 1 - first, entries.number(partial[3])


async def _cut(response: httpx2.Response, *, skip: int, length: int) -> bytes:
    """Read part of a body and leave the rest unread, for a server that ignored the range."""
    taken = bytearray()
    async for chunk in response.aiter_raw():
        taken += chunk[skip : skip + length - len(taken)]
        skip = max(0, skip - len(chunk))
        if len(taken) >= length:
            break
    return bytes(taken)
