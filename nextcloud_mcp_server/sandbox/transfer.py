"""Downloads and uploads: GET with ranges, and the preconditions of every method."""

import re
from collections.abc import AsyncIterator
from typing import Protocol
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from nextcloud_mcp_server.sandbox.dav_xml import EMPTY_TYPE, DavFault, bad_request, fault_response, forbidden
from nextcloud_mcp_server.sandbox.files import split_path
from nextcloud_mcp_server.sandbox.node import Content, Node, download_mime_of
from nextcloud_mcp_server.sandbox.propfind import http_date

_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class Tagged(Protocol):
    """A resource with an etag: a file, a folder, a card."""

    @property
    def is_folder(self) -> bool: ...  # noqa: D102 - see above

    @property
    def etag(self) -> str: ...  # noqa: D102 - see above


def empty(status: int, **headers: str) -> Response:
    """Answer without a body; underscores in names become hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(b"", status, {"Content-Type": EMPTY_TYPE, "Content-Length": "0", **named})


def check_conditions(request: Request, node: Tagged | None) -> Response | None:
    """Check If-Match and If-None-Match; a 304 is returned, a 412 raised.

    Only strong, quoted etags match. A folder has none here, though PROPFIND shows one.
    """
    etag = None if node is None or node.is_folder else f'"{node.etag}"'
    wanted = request.headers.get("if-match")
    if wanted is not None:
        _check_match(wanted, node, etag)
    unwanted = request.headers.get("if-none-match")
    if unwanted is None or node is None:
        return None
    if unwanted != "*" and etag not in _etags(unwanted):
        return None
    if request.method in {"GET", "HEAD"} and etag is not None:
        return Response(b"", 304, {"ETag": etag})
    raise DavFault(
        412,
        "Sabre\\DAV\\Exception\\PreconditionFailed",
        "An If-None-Match header was specified, but the ETag matched (or * was specified).",
        header="If-None-Match",
    )


def overwrite_refused(request: Request) -> bool:
    """Return whether the request forbids replacing an existing file."""
    return request.headers.get("overwrite", "T").upper() == "F"


def destination_of(request: Request, base: str) -> str:
    """Return the path in the Destination header, below `base`.

    The host is ignored, and a raw space or "#" belongs to the name.
    """
    header = request.headers.get("destination")
    if not header:
        raise bad_request("The destination header was not supplied")
    path = unquote(re.sub("/+", "/", _ORIGIN.sub("", header, count=1)))
    if path != base and not path.startswith(f"{base}/"):
        raise forbidden(f"Requested uri ({header}) is out of base uri")
    return "/" + "/".join(split_path(path.removeprefix(base)))


def destination_taken() -> DavFault:
    """Answer that the target exists, and may not be replaced."""
    return DavFault(
        412,
        "Sabre\\DAV\\Exception\\PreconditionFailed",
        "The destination node already exists, and the overwrite header is set to false",
        header="Overwrite",
    )


def download(request: Request, node: Node) -> Response:
    """Answer GET or HEAD for a file."""
    name = quote(node.name, safe="")
    return download_content(
        request,
        node,
        etag=f'"{node.etag}"',
        modified_at=node.modified_at,
        disposition=f"attachment; filename*=UTF-8''{name}; filename=\"{name}\"",
    )


def download_content(
    request: Request, node: Node, *, etag: str, modified_at: int, disposition: str
) -> Response:
    """Stream a file's bytes, or the range asked for."""
    content = node.content
    if content is None:
        return Response(b"", 200, {"Content-Type": EMPTY_TYPE})
    shared = {"Last-Modified": http_date(modified_at), "ETag": etag}
    try:
        span = _range(request.headers.get("range"), content.size)
    except DavFault as fault:
        fault.headers.update(shared)
        return fault_response(fault)
    start, stop = span or (0, content.size)
    headers = {"Content-Type": download_mime_of(node.mime), "Content-Length": str(stop - start), **shared}
    if span is not None:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{content.size}"
    headers |= {"OC-ETag": etag, "Content-Disposition": disposition}
    status = 200 if span is None else 206
    if request.method == "HEAD":
        return Response(b"", status, headers)
    return StreamingResponse(_stream(content, start, stop), status, headers)


async def read_body(request: Request) -> bytes:
    """Read a whole upload."""
    pieces = bytearray()
    async for piece in request.stream():
        pieces += piece
    return bytes(pieces)


async def _stream(content: Content, start: int, stop: int) -> AsyncIterator[bytes]:
    for piece in content.pieces(start, stop):
        yield piece


def _check_match(wanted: str, node: Tagged | None, etag: str | None) -> None:
    exception = "Sabre\\DAV\\Exception\\PreconditionFailed"
    if node is None:
        message = "An If-Match header was specified and the resource did not exist"
        raise DavFault(412, exception, message, header="If-Match")
    if wanted == "*" or etag in _etags(wanted):
        return
    message = "An If-Match header was specified, but none of the specified ETags matched."
    headers = {} if etag is None else {"ETag": etag}
    raise DavFault(412, exception, message, headers=headers, header="If-Match")


def _etags(header: str) -> list[str]:
    return [item.strip() for item in header.split(",")]


def _range(header: str | None, size: int) -> tuple[int, int] | None:
    match = _RANGE.fullmatch(header or "")
    if match is None or match[0] == "bytes=-":
        return None
    if not match[1]:
        return max(0, size - int(match[2])), size
    start = int(match[1])
    if start >= size:
        raise DavFault(
            416,
            "Sabre\\DAV\\Exception\\RequestedRangeNotSatisfiable",
            f"The start offset ({start}) exceeded the size of the entity ({size})",
        )
    return start, min(int(match[2]) + 1, size) if match[2] else size
