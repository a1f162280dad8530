"""Earlier versions of files over DAV: list, read, restore."""

from collections.abc import Sequence
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.dav_request import parse_wanted
from nextcloud_mcp_server.sandbox.dav_xml import (
    DAV,
    NC,
    Markup,
    escape_href,
    forbidden,
    multistatus,
    not_found,
    not_implemented,
)
from nextcloud_mcp_server.sandbox.node import Content, Node
from nextcloud_mcp_server.sandbox.propfind import FILE_PROPERTIES, http_date, pick, stub_properties
from nextcloud_mcp_server.sandbox.state import User
from nextcloud_mcp_server.sandbox.transfer import download_content, empty, read_body


async def answer_versions(
    request: Request, user: User, rest: Sequence[str], *, base: str, headers: dict[str, str]
) -> Response:
    """Answer anything below /versions/{uid}; `rest` is what follows the uid."""
    if len(rest) not in (2, 3) or rest[0] != "versions" or not rest[1].isdigit():
        raise not_found("")
    node = user.files.find_by_id(int(rest[1]))
    if node is None or node.content is None:
        raise not_found("")
    folder = f"{base}/versions/{user.uid}/versions/{node.file_id}"
    # The file as it is now is listed with them; it can be restored, but not read here.
    contents = {**node.versions, node.modified_at: node.content}
    if len(rest) == 3:  # noqa: PLR2004 - versions/{file}/{version}
        version = int(rest[2]) if rest[2].isdigit() and int(rest[2]) in contents else None
        if version is None:
            raise not_found("")
        return _answer_version(request, user, node, version)
    if request.method != "PROPFIND":
        raise not_implemented(request.method)
    wanted = parse_wanted(await read_body(request))
    found = [
        pick(
            escape_href(f"{folder}/{moment}"),
            _properties(user, node, moment, content),
            FILE_PROPERTIES if wanted is None else wanted,
        )
        for moment, content in sorted(contents.items())
    ]
    return multistatus([stub_properties(escape_href(f"{folder}/"), wanted), *found], headers=headers)


def _answer_version(request: Request, user: User, node: Node, version: int) -> Response:
    old = node.versions.get(version)
    match request.method:
        case "GET" | "HEAD" if old is not None:
            return download_content(
                request,
                Node(node.file_id, node.name, None, old, "", version),
                etag=str(version),
                modified_at=version,
                disposition=f"attachment; filename*=UTF-8''{node.name}; filename=\"{node.name}\"",
            )
        case "MOVE" if f"/versions/{user.uid}/restore/" in unquote(request.headers.get("destination", "")):
            if old is not None:
                user.files.restore_version(node, version)
            return empty(201)
        case "COPY" if old is not None:
            raise forbidden("")
        case _:
            raise not_found("")


def _properties(user: User, node: Node, moment: int, content: Content) -> dict[str, str | Markup | None]:
    return {
        f"{{{DAV}}}getlastmodified": http_date(moment),
        f"{{{DAV}}}getcontentlength": str(content.size),
        f"{{{DAV}}}resourcetype": None,
        f"{{{DAV}}}getetag": str(moment),
        f"{{{DAV}}}getcontenttype": node.mime,
        f"{{{NC}}}version-author": user.uid,
    }
