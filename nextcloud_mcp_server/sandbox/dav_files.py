"""WebDAV on one user's files: every method below /remote.php/dav/files/{uid}."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.dav_request import parse_wanted
from nextcloud_mcp_server.sandbox.dav_xml import (
    DavFault,
    conflict,
    file_locked,
    forbidden,
    insufficient_storage,
    invalid_path,
    multistatus,
    not_found,
    not_implemented,
)
from nextcloud_mcp_server.sandbox.files import (
    FileFault,
    FileLocked,
    FileMissing,
    NameRefused,
    NotWritable,
    ParentMissing,
    QuotaExceeded,
    check_name,
    split_path,
)
from nextcloud_mcp_server.sandbox.node import Node
from nextcloud_mcp_server.sandbox.partial import answer_partial, is_partial
from nextcloud_mcp_server.sandbox.propfind import (
    Place,
    find_marked,
    find_properties,
    nodes_to_depth,
    patch_properties,
)
from nextcloud_mcp_server.sandbox.transfer import (
    check_conditions,
    destination_of,
    destination_taken,
    download,
    empty,
    overwrite_refused,
    read_body,
)

_ALLOWED_ON_FOLDER = "OPTIONS, GET, HEAD, DELETE, PROPFIND, PUT, PROPPATCH, COPY, MOVE, REPORT"


@dataclass(frozen=True, slots=True)
class FilesRequest:
    """One request, with its place and the path below the home."""

    request: Request
    place: Place
    path: str
    headers: dict[str, str]

    async def answer(self) -> Response:
        """Answer the request.

        Raises:
            DavFault: with the body Nextcloud would send.
        """
        handler = _HANDLERS.get(self.request.method)
        if handler is None:
            raise not_implemented(self.request.method)
        if is_partial(self.place.tree, self.path):
            return await answer_partial(
                self.request, self.place, self.path, headers=self.headers, allowed=_ALLOWED_ON_FOLDER
            )
        try:
            unchanged = check_conditions(self.request, self.place.tree.find(self.path))
            return unchanged or await handler(self)
        except FileFault as fault:
            translated = translate(fault, self.request.method)
            if self.request.method == "PROPFIND":
                # By then the head of the multistatus is set, all but its status.
                translated.headers |= {name: self.headers[name] for name in ("Vary", "DAV")}
            raise translated from fault

    @property
    def node(self) -> Node:
        """The requested resource, which must exist."""
        return self.place.tree.get(self.path)

    async def propfind(self) -> Response:
        """Answer PROPFIND."""
        wanted = parse_wanted(await read_body(self.request))
        node = self.node
        depth = self.request.headers.get("depth", "1")
        if node.encrypted:
            agent = self.request.headers.get("user-agent", "")
            raise forbidden(f'Client "{agent}" is not allowed to access end-to-end encrypted content')
        minimal = self.request.headers.get("prefer") == "return=minimal"
        found = [
            find_properties(self.place, item, wanted, minimal=minimal) for item in nodes_to_depth(node, depth)
        ]
        return multistatus(found, headers=self.headers)

    async def proppatch(self) -> Response:
        """Answer PROPPATCH."""
        found = patch_properties(self.place, self.node, await read_body(self.request))
        return multistatus([found], headers={k: v for k, v in self.headers.items() if k != "DAV"})

    async def report(self) -> Response:
        """Answer the REPORT that filters by favourite and tag."""
        found = find_marked(self.place, self.node, await read_body(self.request))
        return multistatus(found, headers={"Content-Type": self.headers["Content-Type"]})

    async def get(self) -> Response:
        """Answer GET and HEAD."""
        self.place.tree.check_unlocked(self.path)
        return download(self.request, self.node)

    async def put(self) -> Response:
        """Create or overwrite a file."""
        tree = self.place.tree
        existing = tree.find(self.path)
        if existing is not None and existing.is_folder:
            raise conflict("PUT is not allowed on non-files.")
        if existing is None:
            *folders, name = split_path(self.path)
            tree.get("/" + "/".join(folders))
            check_name(name)
        headers = self.request.headers
        announced = headers.get("content-length")
        if announced is not None:
            # The quota is checked before the body is read, so a big one is refused at once.
            tree.check_room(self.path, int(announced), instead_of=existing)
        body = await read_body(self.request)
        modified = headers.get("x-oc-mtime")
        node = tree.put(
            self.path,
            body,
            modified_at=None if modified is None else int(modified),
            checksum=headers.get("oc-checksum"),
        )
        accepted = {} if modified is None else {"X-OC-MTime": "accepted"}
        etag = f'"{node.etag}"'
        return empty(
            201 if existing is None else 204, **accepted, **{"OC-FileId": node.oc_id}, ETag=etag, OC_ETag=etag
        )

    async def mkcol(self) -> Response:
        """Create a folder."""
        if self.place.tree.find(self.path) is not None:
            raise DavFault(
                405,
                "Sabre\\DAV\\Exception\\MethodNotAllowed",
                "The resource you tried to create already exists",
                headers={"Allow": _ALLOWED_ON_FOLDER},
            )
        if is_partial(self.place.tree, self.path.rpartition("/")[0]):
            raise conflict("Parent node is not a collection")
        node = self.place.tree.make_folder(self.path)
        return empty(201, **{"OC-FileId": node.oc_id})

    async def delete(self) -> Response:
        """Move to the trash."""
        if self.node.parent is None:
            raise forbidden("Permission denied to delete home folder")
        self.place.tree.trash_file(self.path)
        return empty(204)

    async def move(self) -> Response:
        """Move; an existing target is replaced unless Overwrite is F."""
        destination = destination_of(self.request, self.place.base)
        self._check_target(destination)
        node, replaced = self.place.tree.move(self.path, destination)
        etag = {} if node.is_folder else {"OC-ETag": f'"{node.etag}"', "ETag": f'"{node.etag}"'}
        return empty(204 if replaced else 201, **etag, **{"OC-FileId": node.oc_id})

    async def copy(self) -> Response:
        """Copy; an existing target is replaced unless Overwrite is F."""
        destination = destination_of(self.request, self.place.base)
        self._check_target(destination)
        node, replaced = self.place.tree.copy(self.path, destination)
        return empty(204 if replaced else 201, **{"OC-FileId": node.oc_id})

    async def options(self) -> Response:
        """Answer OPTIONS."""
        return empty(200, Allow=_ALLOWED_ON_FOLDER, DAV=self.headers["DAV"])

    def _check_target(self, destination: str) -> None:
        tree = self.place.tree
        parent = tree.find(destination.rpartition("/")[0] or "/")
        if parent is None:
            raise conflict("The destination node is not found")
        target = tree.find(destination)
        if overwrite_refused(self.request) and (target is not None or is_partial(tree, destination)):
            raise destination_taken()
        source = "/" + "/".join(split_path(self.path))
        if destination == source:
            raise forbidden("Source and destination uri are identical.")
        if destination.startswith(f"{source}/"):
            raise conflict("The destination may not be part of the same subtree as the source path.")


_HANDLERS: dict[str, Callable[[FilesRequest], Awaitable[Response]]] = {
    "PROPFIND": FilesRequest.propfind,
    "PROPPATCH": FilesRequest.proppatch,
    "REPORT": FilesRequest.report,
    "GET": FilesRequest.get,
    "HEAD": FilesRequest.get,
    "PUT": FilesRequest.put,
    "MKCOL": FilesRequest.mkcol,
    "DELETE": FilesRequest.delete,
    "MOVE": FilesRequest.move,
    "COPY": FilesRequest.copy,
    "OPTIONS": FilesRequest.options,
}


_FAULTS: dict[type[FileFault], Callable[[str], DavFault]] = {
    FileMissing: not_found,
    FileLocked: file_locked,
    ParentMissing: conflict,
    NameRefused: invalid_path,
    QuotaExceeded: insufficient_storage,
    NotWritable: forbidden,
}


def translate(fault: FileFault, method: str) -> DavFault:
    """Return the error of a file tree as Nextcloud's exception."""
    if isinstance(fault, FileLocked) and method == "MOVE":
        # Nextcloud does not translate the exception here, so it surfaces as a 500.
        return DavFault(500, "OCP\\Lock\\LockedException", str(fault))
    return _FAULTS[type(fault)](str(fault))
