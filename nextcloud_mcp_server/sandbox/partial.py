"""Names that end in ".part": Nextcloud keeps them for uploads and answers as if each were a file.

No client can create such a file, but each name seems taken: If-None-Match and `Overwrite: F` find a file there,
PROPFIND shows an empty file without id, time or etag, and DELETE answers 204.
"""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.dav_request import parse_wanted
from nextcloud_mcp_server.sandbox.dav_xml import (
    DAV,
    NC,
    OC,
    DavFault,
    Found,
    escape_href,
    invalid_path,
    multistatus,
    not_implemented,
)
from nextcloud_mcp_server.sandbox.files import FileTree, split_path
from nextcloud_mcp_server.sandbox.propfind import Place
from nextcloud_mcp_server.sandbox.transfer import empty, read_body

_VALUES: dict[str, str | None] = {
    f"{{{DAV}}}getcontentlength": "0",
    f"{{{DAV}}}resourcetype": None,
    f"{{{DAV}}}getetag": '""',
    f"{{{DAV}}}getcontenttype": "",
    f"{{{OC}}}size": "0",
    f"{{{OC}}}favorite": "0",
    f"{{{OC}}}permissions": "RGDNVW",
    f"{{{NC}}}has-preview": "false",
}
_TAGS = f"{{{NC}}}system-tags"
_TYPE_ERROR = (
    "A type error occurred. For more details, please refer to the logs, which provide additional context "
    "about the type error."
)
_USUAL = tuple(_VALUES)[:4]


def is_partial(tree: FileTree, path: str) -> bool:
    """Return whether Nextcloud treats this path as an unfinished upload."""
    # Only this spelling: "x.PART" is refused as a name, but nothing seems to be there.
    if not path.endswith(".part") or tree.find(path) is not None:
        return False
    parent = tree.find("/".join(split_path(path)[:-1]))
    return parent is not None and parent.is_folder


async def answer_partial(
    request: Request, place: Place, path: str, *, headers: dict[str, str], allowed: str
) -> Response:
    """Answer a request for such a name.

    Raises:
        DavFault: with the body Nextcloud would send.
    """
    _check_conditions(request)
    shown = "/".join(split_path(path))
    match request.method:
        case "PROPFIND":
            wanted = parse_wanted(await read_body(request))
            if _TAGS in (wanted or ()):
                # They are looked up by the file's id, and there is none.
                raise DavFault(500, "TypeError", _TYPE_ERROR, headers=headers)
            return multistatus([_properties(f"{place.base}/{shown}", wanted)], headers=headers)
        case "PUT":
            raise invalid_path('".part" is a forbidden file type.')
        case "DELETE":
            return empty(204)
        case "MKCOL":
            raise DavFault(
                405,
                "Sabre\\DAV\\Exception\\MethodNotAllowed",
                "The resource you tried to create already exists",
                headers={"Allow": allowed},
            )
        case "GET":
            message = f"Could not open file: {shown}, file doesn't seem to exist"
            raise DavFault(503, "Sabre\\DAV\\Exception\\ServiceUnavailable", message)
        case "MOVE":
            target = "/".join(split_path(request.headers.get("destination", "").partition(place.base)[2]))
            raise DavFault(500, "Sabre\\DAV\\Exception", f"Failed to rename /{shown} to /{target}")
        case _:
            raise not_implemented(request.method)


def _check_conditions(request: Request) -> None:
    conditions = (
        ("If-Match", "An If-Match header was specified, but none of the specified ETags matched."),
        (
            "If-None-Match",
            "An If-None-Match header was specified, but the ETag matched (or * was specified).",
        ),
    )
    for header, message in conditions:
        value = request.headers.get(header)
        if value is not None and (value == "*") == (header == "If-None-Match"):
            raise DavFault(412, "Sabre\\DAV\\Exception\\PreconditionFailed", message, header=header)


def _properties(path: str, wanted: Sequence[str] | None) -> Found:
    names = _USUAL if wanted is None else wanted
    found = {name: _VALUES[name] for name in names if name in _VALUES}
    missing = [name for name in names if name not in _VALUES]
    return Found(escape_href(path), found, {404: missing} if missing else {})
