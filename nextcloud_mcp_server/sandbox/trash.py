"""The trash over DAV: list, read, restore, delete permanently, empty."""

from collections.abc import Sequence
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.dav_request import parse_wanted
from nextcloud_mcp_server.sandbox.dav_xml import (
    DAV,
    NC,
    OC,
    Found,
    Markup,
    escape_href,
    forbidden,
    multistatus,
    not_found,
    not_implemented,
)
from nextcloud_mcp_server.sandbox.files import TrashItem
from nextcloud_mcp_server.sandbox.propfind import FILE_PROPERTIES, http_date, stub_properties
from nextcloud_mcp_server.sandbox.state import User
from nextcloud_mcp_server.sandbox.transfer import (
    destination_taken,
    download_content,
    empty,
    overwrite_refused,
    read_body,
)


async def answer_trash(
    request: Request, user: User, rest: Sequence[str], *, base: str, headers: dict[str, str]
) -> Response:
    """Answer anything below /trashbin/{uid}; `rest` is what follows the uid."""
    if not rest or rest == ["restore"]:
        if request.method != "PROPFIND":
            raise not_implemented(request.method)
        href = escape_href("/".join([f"{base}/trashbin/{user.uid}", *rest]) + "/")
        return multistatus([stub_properties(href, parse_wanted(await read_body(request)))], headers=headers)
    if rest[0] != "trash" or len(rest) > 2:  # noqa: PLR2004 - trash/{entry} is the longest path
        raise not_found("")
    if len(rest) == 1:
        return await _answer_root(request, user, base=base, headers=headers)
    item = user.files.find_trash(rest[1])
    if item is None:
        raise not_found("")
    return await _answer_entry(request, user, item, base=base, headers=headers)


async def _answer_root(request: Request, user: User, *, base: str, headers: dict[str, str]) -> Response:
    if request.method == "DELETE":
        user.files.trash.clear()
        return empty(204)
    if request.method != "PROPFIND":
        raise not_implemented(request.method)
    wanted = parse_wanted(await read_body(request))
    found = [stub_properties(escape_href(f"{base}/trashbin/{user.uid}/trash/"), wanted)]
    if request.headers.get("depth", "1") != "0":
        newest_first = sorted(user.files.trash, key=lambda item: -item.deleted_at)
        found += [_properties(user, item, wanted, base=base) for item in newest_first]
    return multistatus(found, headers=headers)


async def _answer_entry(
    request: Request, user: User, item: TrashItem, *, base: str, headers: dict[str, str]
) -> Response:
    match request.method:
        case "GET" | "HEAD":
            return download_content(
                request,
                item.node,
                etag=str(item.deleted_at),
                modified_at=item.deleted_at,
                disposition=f'attachment; filename="{item.node.name}"',
            )
        case "PROPFIND":
            wanted = parse_wanted(await read_body(request))
            return multistatus([_properties(user, item, wanted, base=base)], headers=headers)
        case "DELETE":
            user.files.trash.remove(item)
            return empty(204)
        case "MOVE":
            destination = unquote(request.headers.get("destination", ""))
            if f"{base}/trashbin/{user.uid}/restore/" not in destination:
                raise forbidden("")
            if overwrite_refused(request):
                # Every name in the restore folder counts as taken.
                raise destination_taken()
            user.files.restore(item)
            return empty(201)
        case _:
            raise not_implemented(request.method)


def _properties(user: User, item: TrashItem, wanted: Sequence[str] | None, *, base: str) -> Found:
    node = item.node
    known: dict[str, str | Markup | None] = {
        f"{{{NC}}}trashbin-filename": node.name,
        f"{{{NC}}}trashbin-original-location": item.original_path.lstrip("/"),
        f"{{{NC}}}trashbin-deletion-time": str(item.deleted_at),
        f"{{{NC}}}trashbin-title": item.original_path.lstrip("/"),
        f"{{{NC}}}trashbin-deleted-by-id": user.uid,
        f"{{{NC}}}trashbin-deleted-by-display-name": user.display_name,
        f"{{{DAV}}}resourcetype": Markup("<d:collection/>") if node.is_folder else None,
        f"{{{DAV}}}getlastmodified": http_date(item.deleted_at),
        f"{{{DAV}}}getetag": str(item.deleted_at),
        f"{{{OC}}}fileid": str(node.file_id),
        f"{{{OC}}}id": str(node.file_id),
        f"{{{OC}}}size": str(node.size),
        f"{{{NC}}}has-preview": "true" if node.mime.startswith(("text/", "image/")) else "false",
    }
    if not node.is_folder:
        known[f"{{{DAV}}}getcontentlength"] = str(node.size)
        known[f"{{{DAV}}}getcontenttype"] = node.mime
    names = [name for name in FILE_PROPERTIES if name in known] if wanted is None else wanted
    missing = [name for name in names if name not in known]
    tail = "/" if node.is_folder else ""
    return Found(
        escape_href(f"{base}/trashbin/{user.uid}/trash/{item.entry_name}{tail}"),
        {name: known[name] for name in names if name in known},
        {404: missing} if missing else {},
    )
