"""Part of a file out of a GET answer, in memory no larger than the part."""

import re
from dataclasses import dataclass
from typing import Final

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import entries
from nextcloud_mcp_server.nextcloud import etag as etags
from nextcloud_mcp_server.nextcloud.version import Version
from nextcloud_mcp_server.nextcloud.visible import quoted

_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,20})-\d{1,20}/(\d{1,20}|\*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some bytes of a file, and what the answer told about all of it."""

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
    """Read `length` bytes from byte `offset` of the file on, whether or not the server kept to the range.

    Raises:
        InvalidInput: It is a folder, or ends before `offset`.
    """
    headers = response.headers
    version = Version.of(etags.of(headers), None, entries.http_date(headers.get("Last-Modified", "")))
    partial = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if partial:
        start, total = int(partial[1]), entries.number(partial[2])
    else:
        start, total = 0, entries.number(headers.get("Content-Length", ""))
    if start > offset:
        raise errors.ServerFault("Nextcloud answered another part of the file than was asked for: try again.")
    data = await _cut(response, skip=offset - start, length=length)
    if not data and version.etag is None and version.seconds is None:
        # Nextcloud answers a folder with an empty page that has neither etag nor time.
        raise errors.InvalidInput(f"{quoted(path)} is a folder: list it with nc_files_list_folder.")
    if not data and offset:
        raise errors.InvalidInput(f"{quoted(path)} ends before byte {offset}.")
    if total is None and not partial and len(data) < length:
        # Nextcloud names no length of an empty file (32.0.1, nginx); what came is all there is.
        total = offset + len(data)
    sized = Version(version.etag, total, version.seconds)
    return Chunk(path, data, offset, total, headers.get("Content-Type", "").partition(";")[0].strip(), sized)


async def _cut(response: httpx2.Response, *, skip: int, length: int) -> bytes:
    """Take a part of a body and leave the rest unread: a server may ignore the range."""
    taken = bytearray()
    async for chunk in response.aiter_raw():
        taken += chunk[skip : skip + length - len(taken)]
        skip = max(0, skip - len(chunk))
        if len(taken) >= length:
            break
    return bytes(taken)
