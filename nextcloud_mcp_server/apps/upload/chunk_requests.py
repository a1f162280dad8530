"""The requests of chunked uploads (version 2 of the protocol), for one user.

MKCOL /uploads/{uid}/{id}        creates a folder for the upload; Nextcloud deletes it after a day
PUT   /uploads/{uid}/{id}/00001  a chunk; sent again under the same name, it replaces the earlier one
MOVE  /uploads/{uid}/{id}/.file  assembles the chunks at the destination, which may take minutes
"""

import re
import secrets
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import untrusted
from nextcloud_mcp_server.nextcloud import dav, entries, file_errors
from nextcloud_mcp_server.nextcloud import etag as etags
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.retry import Kind
from nextcloud_mcp_server.nextcloud.sanitize import quoted

#: The highest chunk number that Nextcloud accepts.
MAX_CHUNKS: Final = 10_000

_CHUNK_SECONDS: Final = 600.0
_ASSEMBLY_SECONDS: Final = 1_800.0
_ID: Final = re.compile(r"mcp-[0-9a-f]{32}")
_LISTED: Final = ("d:resourcetype", "d:getcontentlength")
_GONE: Final = (
    "There is no such upload: it was finished or discarded, or is older than a day. "
    "Begin anew without upload_id."
)


@dataclass(frozen=True, slots=True)
class Target:
    """The checked destination of an upload; `replaced` is the file it overwrites."""

    segments: dav.Segments
    replaced: Entry | None

    @property
    def path(self) -> str:
        """The path as tools take and show it."""
        return dav.join(self.segments)


class ChunkRequests:
    """Sends the requests; one per method unless stated."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http
        self._tree = dav.Tree.of("files", http.uid)
        self._uploads = dav.Tree.of("uploads", http.uid)

    async def begin(self, target: Target | None = None, *, total: int | None = None) -> str:
        """Create an upload and return its id.

        With a target, an object store receives the chunks directly as parts of the file, and requires at least 5 MiB
        for each. Without a target Nextcloud stores the chunks and assembles them itself.
        """
        upload_id = f"mcp-{secrets.token_hex(16)}"
        headers = self._about(target, total)
        await self._http.request(
            "MKCOL", self._uploads.url([upload_id]), headers=headers, repeat=Kind.IDEMPOTENT
        )
        return upload_id

    async def put(
        self,
        upload_id: str,
        number: int,
        data: bytes,
        target: Target | None = None,
        *,
        total: int | None = None,
    ) -> None:
        """Send a chunk, repeated after transient errors; `number` counts from 1.

        Raises:
          NotFound: There is no such upload.
          StorageFull: Nextcloud has no room for these bytes.
        """
        if number > MAX_CHUNKS:
            raise errors.TooLarge(f"An upload has at most {MAX_CHUNKS} parts: send larger ones.")
        url = self._uploads.url([*_checked(upload_id), f"{number:05}"])
        headers = {**self._about(target, total), "Content-Type": "application/octet-stream"}
        await self._http.request(
            "PUT",
            url,
            headers=headers,
            content=data,
            timeout_seconds=_CHUNK_SECONDS,
            patient=True,
            repeat=Kind.REPLACES,
            sentences={404: _GONE, 507: "Nextcloud did not store this{reason}."},
        )

    async def parts(self, upload_id: str) -> list[int]:
        """Fetch the sizes of the chunks received, in order.

        Raises:
          NotFound: There is no such upload.
        """
        asked = entries.ask(
            self._http,
            "PROPFIND",
            self._uploads,
            _checked(upload_id),
            body=dav.propfind(_LISTED),
            headers={"Depth": "1"},
            sentences={404: _GONE},
        )
        sizes: dict[int, int] = {}
        async with asked as found:
            async for segments, response in found:
                number = untrusted.integer(segments[-1]) if segments else None
                if number is not None and number >= 0:
                    sizes[number] = entries.number(response.text("d:getcontentlength")) or 0
        return [sizes[number] for number in sorted(sizes)]

    async def discard(self, upload_id: str) -> None:
        """Delete an upload and its chunks.

        Raises:
          NotFound: There is no such upload.
        """
        await self._http.request("DELETE", self._uploads.url(_checked(upload_id)), sentences={404: _GONE})

    async def assemble(self, upload_id: str, target: Target, *, total: int) -> httpx2.Response:
        """Assemble the chunks at the target.

        Raises:
          AlreadyExists, EtagMismatch: The target has changed.
          NotFound: The upload, or the file to overwrite, no longer exists.
          InvalidName: The chunks are not `total` bytes, or Nextcloud rejects the name.
        """
        shown, url = target.path, self._tree.url(target.segments)
        headers = {**self._about(target, total), "Overwrite": "F" if target.replaced is None else "T"}
        if target.replaced is not None and target.replaced.etag:
            # `If-Match` would refer to the chunks. Read in sabre/dav's `checkPreconditions`; the desktop client
            # sends the same header.
            where = urlsplit(str(self._http.base)).path + url
            headers["If"] = f"<{where}> ([{etags.quote(target.replaced.etag)}])"
        try:
            return await self._http.request(
                "MOVE",
                self._uploads.url([*_checked(upload_id), ".file"]),
                headers=headers,
                timeout_seconds=_ASSEMBLY_SECONDS,
                patient=True,
                # The caller decides how long to wait, and checks for the file in between.
                repeat=Kind.ONCE,
                sentences={
                    400: "Nextcloud did not put the parts together{reason}.",
                    404: f"The upload, or {quoted(shown)} that it was to replace, is not there any more: begin anew.",
                    409: file_errors.no_folder_for(shown),
                    507: f"Nextcloud did not store {quoted(shown)}{{reason}}.",
                },
            )
        except errors.AlreadyExists as error:
            raise file_errors.taken(shown) from error
        except errors.EtagMismatch as error:
            raise file_errors.changed(shown, None) from error

    def _about(self, target: Target | None, total: int | None) -> dict[str, str]:
        headers = {} if total is None else {"OC-Total-Length": str(total)}
        if target is not None:
            headers["Destination"] = f"{self._http.base}{self._tree.url(target.segments)}"
        return headers


def _checked(upload_id: str) -> tuple[str]:
    """Check that an upload id was created here: other programs' uploads are in the same folder.

    Raises:
      InvalidInput: It was not.
    """
    if not _ID.fullmatch(upload_id):
        raise errors.InvalidInput(
            "That is not an upload_id: pass on the one that the first part was answered with."
        )
    return (upload_id,)
