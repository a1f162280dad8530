"""Uploads in chunks over DAV: a folder below /uploads/{uid}, numbered chunks, and a MOVE of `.file` out of it.

As in a Nextcloud without an object store. The `If` header is read in sabre/dav's `checkPreconditions`.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.dav_files import translate
from nextcloud_mcp_server.sandbox.dav_request import parse_wanted
from nextcloud_mcp_server.sandbox.dav_xml import (
    DAV,
    DavFault,
    Found,
    Markup,
    bad_request,
    conflict,
    escape_href,
    insufficient_storage,
    multistatus,
    not_found,
    not_implemented,
)
from nextcloud_mcp_server.sandbox.files import FileFault
from nextcloud_mcp_server.sandbox.node import Node
from nextcloud_mcp_server.sandbox.propfind import FILE_PROPERTIES, Place, http_date
from nextcloud_mcp_server.sandbox.state import Upload, User
from nextcloud_mcp_server.sandbox.transfer import (
    destination_of,
    destination_taken,
    empty,
    overwrite_refused,
    read_body,
)

_FUTURE = ".file"
_TAGGED = re.compile(r"<(?P<uri>[^>]*)> \(\[(?P<etag>[^\]]*)\]\)")
#: A session, and perhaps something in it.
_DEEPEST = 2


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """One request below /uploads/{uid}; `rest` is what follows the uid."""

    request: Request
    user: User
    place: Place
    rest: Sequence[str]
    headers: dict[str, str]

    async def answer(self) -> Response:
        """Answer the request.

        Raises:
            DavFault: with the body Nextcloud would send.
        """
        if not 0 < len(self.rest) <= _DEEPEST:
            raise not_found("")
        name = self.rest[0]
        upload = self.user.uploads.get(name)
        if self.request.method == "MKCOL" and len(self.rest) == 1:
            return self._begin(name, upload)
        if upload is None:
            raise not_found(f"File with name //{name} could not be located")
        match self.request.method, self.rest[1:]:
            case "PUT", [chunk] if chunk != _FUTURE:
                return await self._put(upload, chunk)
            case "PROPFIND", []:
                return await self._list(name, upload)
            case "MOVE", [target] if target == _FUTURE:
                return self._assemble(name, upload)
            case "DELETE", []:
                del self.user.uploads[name]
                return empty(204)
            case _:
                raise not_implemented(self.request.method)

    def _begin(self, name: str, upload: Upload | None) -> Response:
        if upload is not None:
            message = "The resource you tried to create already exists"
            raise DavFault(405, "Sabre\\DAV\\Exception\\MethodNotAllowed", message)
        self.user.uploads[name] = Upload(self._now, hashlib.sha256(name.encode()).hexdigest()[:13])
        return empty(201)

    async def _put(self, upload: Upload, chunk: str) -> Response:
        headers = self.request.headers
        total = headers.get("oc-total-length", "")
        if headers.get("destination") and total.isdigit():
            self._check_room(destination_of(self.request, self.place.base), int(total))
        data = await read_body(self.request)
        created = chunk not in upload.chunks
        upload.chunks[chunk] = data, hashlib.sha256(data).hexdigest()[:32], self._now
        return empty(201 if created else 204)

    def _check_room(self, destination: str, size: int) -> None:
        """Refuse an upload that is too large; each chunk states the total size."""
        tree = self.place.tree
        path = destination if tree.find(destination) else destination.rpartition("/")[0] or "/"
        free = tree.available_bytes
        if 0 <= free < size:
            raise insufficient_storage(f"Insufficient space in {path}, {size} required, {free} available")

    async def _list(self, name: str, upload: Upload) -> Response:
        wanted = parse_wanted(await read_body(self.request))
        href = f"{self.place.base.replace('/files/', '/uploads/', 1)}/{name}/"
        folder: dict[str, str | Markup | None] = {
            f"{{{DAV}}}getlastmodified": http_date(upload.started_at),
            f"{{{DAV}}}resourcetype": Markup("<d:collection/>"),
        }
        found = [_found(href, folder, wanted)]
        if self.request.headers.get("depth", "1") != "0":
            files = {_FUTURE: (upload.size, upload.etag, upload.started_at)}
            files |= {each: (len(data), etag, at) for each, (data, etag, at) in upload.chunks.items()}
            found += [_found(f"{href}{each}", _file(*about), wanted) for each, about in files.items()]
        return multistatus(found, headers=self.headers)

    def _assemble(self, name: str, upload: Upload) -> Response:
        self._check_if()
        tree, destination = self.place.tree, destination_of(self.request, self.place.base)
        if tree.find(destination.rpartition("/")[0] or "/") is None:
            raise conflict("The destination node is not found")
        existing = tree.find(destination)
        if existing is not None and overwrite_refused(self.request):
            raise destination_taken()
        self._check_room(destination, upload.size)
        if existing is not None and existing.is_folder:
            where = f"{self.place.base}{destination}".partition("/remote.php/dav/")[2]
            raise bad_request(f"The given destination {where} is a directory.")
        total = self.request.headers.get("oc-total-length")
        if total is not None and total != str(upload.size):
            message = f"Chunks on server do not sum up to {total} but to {upload.size} bytes"
            raise bad_request(message)
        try:
            node = tree.put(destination, upload.data)
        except FileFault as fault:
            raise translate(fault, "PUT") from fault
        del self.user.uploads[name]
        etag = f'"{node.etag}"'
        status = 201 if existing is None else 204
        return empty(status, ETag=etag, OC_ETag=etag, **{"OC-FileId": node.oc_id})

    def _check_if(self) -> None:
        """Check the etag that the file to replace must still have."""
        header = self.request.headers.get("if")
        if header is None:
            return
        tagged = _TAGGED.fullmatch(header)
        uri = "" if tagged is None else tagged["uri"]
        scope = {**self.request.scope, "headers": [(b"destination", uri.encode())]}
        path = destination_of(Request(scope), self.place.base)
        node: Node | None = self.place.tree.find(path)
        if node is None:
            raise not_found(f"File with name {path} could not be located")
        if tagged is None or node.is_folder or f'"{node.etag}"' != tagged["etag"]:
            where = f"{self.place.base}{path}".partition("/remote.php/dav/")[2]
            message = f"Failed to find a valid token/etag combination for {where}"
            raise DavFault(412, "Sabre\\DAV\\Exception\\PreconditionFailed", message, header="If")

    @property
    def _now(self) -> int:
        return self.place.tree.now


def _file(size: int, etag: str, at: int) -> dict[str, str | Markup | None]:
    return {
        f"{{{DAV}}}getlastmodified": http_date(at),
        f"{{{DAV}}}getcontentlength": str(size),
        f"{{{DAV}}}resourcetype": None,
        f"{{{DAV}}}getetag": f'"{etag}"',
        f"{{{DAV}}}getcontenttype": "application/octet-stream",
    }


def _found(href: str, known: dict[str, str | Markup | None], wanted: Sequence[str] | None) -> Found:
    names = [name for name in FILE_PROPERTIES if name in known] if wanted is None else wanted
    missing = [name for name in names if name not in known]
    return Found(
        escape_href(href),
        {name: known[name] for name in names if name in known},
        {404: missing} if missing else {},
    )
