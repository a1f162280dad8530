"""Tags and comments over DAV: /systemtags, /systemtags-relations/files/{id} and /comments/files/{id}."""

import json
from collections.abc import Sequence
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.dav_request import parse_wanted, parse_xml
from nextcloud_mcp_server.sandbox.dav_xml import (
    DAV,
    EMPTY_TYPE,
    NC,
    OC,
    DavFault,
    Found,
    Markup,
    bad_request,
    conflict,
    element,
    escape_href,
    forbidden,
    multistatus,
    not_found,
    not_implemented,
)
from nextcloud_mcp_server.sandbox.node import Comment, Node, Tag
from nextcloud_mcp_server.sandbox.propfind import http_date, pick, stub_properties
from nextcloud_mcp_server.sandbox.state import State, User
from nextcloud_mcp_server.sandbox.transfer import empty, read_body

_LONGEST_COMMENT = 1000


class TagsRequest:
    """One request of one user; `base` is the address of the DAV service."""

    def __init__(
        self, request: Request, user: User, state: State, *, base: str, headers: dict[str, str]
    ) -> None:
        self._request = request
        self._user = user
        self._state = state
        self._base = base
        self._headers = headers

    async def answer(self, area: str, rest: Sequence[str]) -> Response:
        """Answer the request; `rest` is what follows the area.

        Raises:
            DavFault: with the body Nextcloud would send.
        """
        if area == "systemtags":
            return await self._tags(rest)
        if rest[:1] != ["files"]:
            raise not_found("")
        answer = self._comments if area == "comments" else self._relations
        return await answer(rest[1:])

    async def _tags(self, rest: Sequence[str]) -> Response:
        """Answer below /systemtags: list, create, and, for administrators, delete."""
        method = self._request.method
        if not rest and method == "PROPFIND":
            tags = [(tag, f"{tag.id}/") for tag in self._state.tags.values()]
            return await self._list("systemtags", tags)
        if not rest and method == "POST":
            return await self._create_tag()
        if len(rest) == 1 and method == "DELETE":
            return self._delete_tag(rest[0])
        raise not_implemented(method)

    async def _relations(self, rest: Sequence[str]) -> Response:
        """Answer below /systemtags-relations/files: the tags of a file, set and unset."""
        node = self._node(rest)
        where = f"systemtags-relations/files/{node.file_id}"
        if len(rest) == 1:
            return await self._list(where, [(self._state.tags[one], str(one)) for one in sorted(node.tags)])
        tag = self._state.tags.get(_number(rest[1]))
        if self._request.method == "PUT":
            return _assign(node, tag, rest[1])
        if self._request.method != "DELETE" or tag is None or tag.id not in node.tags:
            raise not_found(f"Tag with id {rest[1]} not present for object {node.file_id}")
        node.tags.remove(tag.id)
        return empty(204)

    async def _comments(self, rest: Sequence[str]) -> Response:
        """Answer below /comments/files: list, page, add, change and delete."""
        node = self._node(rest)
        if len(rest) > 1:
            return await self._comment(node, _number(rest[1]))
        body = await read_body(self._request)
        match self._request.method:
            case "PROPFIND":
                folder = Found(
                    self._comment_href(node),
                    {
                        f"{{{DAV}}}resourcetype": Markup("<d:collection/>"),
                        f"{{{OC}}}readMarker": http_date(self._state.clock().timestamp()),
                    },
                )
                found = [self._described(node, one, propfind=True) for one in _newest_first(node)]
                return multistatus([folder, *found], headers=self._headers)
            case "REPORT":
                asked = parse_xml(body)
                limit, offset = (
                    int(found.text or 0) if (found := asked.find(name, uri=OC)) is not None else 0
                    for name in ("limit", "offset")
                )
                page = _newest_first(node)[offset : offset + limit if limit else None]
                headers = {"Content-Type": self._headers["Content-Type"]}
                return multistatus([self._described(node, one) for one in page], headers=headers)
            case "POST":
                return self._add_comment(node, body)
            case method:
                raise not_implemented(method)

    def _node(self, rest: Sequence[str]) -> Node:
        node = self._user.files.find_by_id(_number(rest[0])) if rest else None
        if node is None:
            fault = not_found("Entity does not exist or is not available")
            if self._request.method == "PROPFIND":
                # By then the head of the multistatus is set, all but its status.
                fault.headers |= {name: self._headers[name] for name in ("Vary", "DAV")}
            raise fault
        return node

    async def _list(self, where: str, tags: Sequence[tuple[Tag, str]]) -> Response:
        if self._request.method != "PROPFIND":
            raise not_implemented(self._request.method)
        wanted = parse_wanted(await read_body(self._request))
        href = escape_href(f"{self._base}/{where}/")
        folder = stub_properties(href, wanted)
        return multistatus(
            [folder, *(pick(f"{href}{tail}", _tag_properties(tag), wanted) for tag, tail in tags)],
            headers=self._headers,
        )

    async def _create_tag(self) -> Response:
        asked = cast("dict[str, object]", json.loads(await read_body(self._request)))
        name = str(asked["name"])
        if any(tag.name == name for tag in self._state.tags.values()):
            raise conflict("Tag already exists")
        if self._state.tags_by_admins_only and not self._user.admin:
            raise forbidden("Not sufficient permissions")
        tag = self._state.add_tag(name)
        headers = {"Content-Type": EMPTY_TYPE, "Content-Location": f"{self._base}/systemtags/{tag.id}"}
        return Response(b"", 201, headers)

    def _delete_tag(self, tag_id: str) -> Response:
        if not self._user.admin:
            raise forbidden(f"No permission to delete tag {tag_id}")
        del self._state.tags[_number(tag_id)]
        return empty(204)

    async def _comment(self, node: Node, comment_id: int) -> Response:
        comment = next((one for one in node.comments if one.id == comment_id), None)
        if comment is None:
            raise not_found("")
        if self._request.method == "DELETE":
            node.comments.remove(comment)
            return empty(204)
        if self._request.method != "PROPPATCH":
            raise not_implemented(self._request.method)
        changed = parse_xml(await read_body(self._request)).find("set", "prop")
        message = None if changed is None else changed.find("message", uri=OC)
        comment.message = "" if message is None else message.text
        done = Found(self._comment_href(node, comment), {f"{{{OC}}}message": None})
        return multistatus([done], headers={k: v for k, v in self._headers.items() if k != "DAV"})

    def _add_comment(self, node: Node, body: bytes) -> Response:
        message = str(json.loads(body)["message"])
        if len(message) > _LONGEST_COMMENT:
            raise bad_request(f"Message exceeds allowed character limit of {_LONGEST_COMMENT}")
        comment = Comment(
            self._state.next_comment_id(), self._user.uid, message, self._state.clock().timestamp()
        )
        node.comments.append(comment)
        headers = {"Content-Type": EMPTY_TYPE, "Content-Location": self._comment_href(node, comment)}
        return Response(b"", 201, headers)

    def _comment_href(self, node: Node, comment: Comment | None = None) -> str:
        tail = "" if comment is None else comment.id
        return f"{self._base}/comments/files/{node.file_id}/{tail}"

    def _described(self, node: Node, comment: Comment, *, propfind: bool = False) -> Found:
        author = self._state.users[comment.author]
        shared: dict[str, str | None] = {
            "actorType": "users",
            "actorId": author.uid,
            "creationDateTime": http_date(comment.created_at),
            "latestChildDateTime": None,
            "objectType": "files",
            "objectId": str(node.file_id),
        }
        threads = {"parentId": "0", "topmostParentId": "0", "childrenCount": "0"}
        told: dict[str, str | Markup | None] = {"id": str(comment.id), **threads}
        if propfind:
            told |= {"message": comment.message, "verb": "comment", **shared}
            told |= dict.fromkeys(("referenceId", "metaData", "reactions", "expireDate"))
            told |= {"actorDisplayName": author.display_name, "mentions": self._mentions(comment)}
            told |= {"isUnread": "false"}
        else:
            told |= {"verb": "comment", **shared, "message": comment.message}
            told |= {"actorDisplayName": author.display_name, "isUnread": "false"}
            told |= {"mentions": self._mentions(comment)}
        properties = {f"{{{OC}}}{name}": value for name, value in told.items()}
        if propfind:
            properties = {f"{{{DAV}}}resourcetype": None, **properties}
        return Found(self._comment_href(node, comment), properties)

    def _mentions(self, comment: Comment) -> Markup | None:
        mentioned = [user for user in self._state.users.values() if f'@"{user.uid}"' in comment.message]
        written = [
            element(f"{{{OC}}}mentionType", "user")
            + element(f"{{{OC}}}mentionId", user.uid)
            + element(f"{{{OC}}}mentionDisplayName", user.display_name)
            for user in mentioned
        ]
        return Markup("".join(element(f"{{{OC}}}mention", Markup(one)) for one in written)) or None


def _assign(node: Node, tag: Tag | None, asked: str) -> Response:
    if tag is None:
        what = f"Tag with id {asked} does not exist, cannot assign"
        raise DavFault(412, "Sabre\\DAV\\Exception\\PreconditionFailed", what)
    if tag.id in node.tags:
        raise conflict("PUT is not allowed on non-files.")
    # apps/dav/lib/SystemTag/SystemTagsObjectMappingCollection.php of 32: a user who may change the file.
    if node.readonly:
        raise forbidden(f"No permission to assign tag to {node.file_id}")
    node.tags.add(tag.id)
    return empty(201)


def _newest_first(node: Node) -> list[Comment]:
    return sorted(node.comments, key=lambda one: one.id, reverse=True)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _tag_properties(tag: Tag) -> dict[str, str | Markup | None]:
    assignable = "true" if tag.assignable else "false"
    return {
        f"{{{OC}}}id": str(tag.id),
        f"{{{OC}}}display-name": tag.name,
        f"{{{OC}}}user-visible": "true",
        f"{{{OC}}}user-assignable": assignable,
        f"{{{OC}}}can-assign": assignable,
        f"{{{NC}}}color": "",
    }
