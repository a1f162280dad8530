"""The API 1.0 of the Collectives app: pages are files below a hidden folder of the user.

The lists are recorded. One page, and its creation, follow the source of version 4.3.0. Collectives are not shared
between users here.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.apps.collectives.store import CollectiveStore, StoredCollective
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, refuse_ocs
from nextcloud_mcp_server.sandbox.node import Node
from nextcloud_mcp_server.sandbox.reply import OCS_UNKNOWN, ocs_reply
from nextcloud_mcp_server.sandbox.state import State, User

_INDEX = "Readme.md"
_WELCOME = b"## Welcome to your new collective\n"
_ONE = re.compile(r"(?P<trash>trash/)?(?P<id>\d+)(?P<pages>/pages(?:/(?P<page>\d+))?)?")
_ILLEGAL = re.compile(r'[*|\\:"<>?]')

Fields = dict[str, Any]


class CollectivesApi:
    """Answers below /ocs/v2.php/apps/collectives/api/v1.0."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        base = "/ocs/v{version:int}.php/apps/collectives/api/v1.0/collectives"
        return [
            Route(base, self._all, methods=["GET", "POST"]),
            Route(f"{base}/{{path:path}}", self._one, methods=["GET", "POST", "DELETE"]),
        ]

    async def _all(self, request: Request) -> Response:
        found = self._gate.identify(request, "ocs")
        if isinstance(found, Refusal):
            return refuse_ocs(request, found)
        if request.method == "POST":
            sent = json.loads(await request.body())
            made = add(self._context.state, found.user, sent["name"], sent.get("emoji"))
            data: Fields = {"collective": _collective_json(made), "info": ""}
        else:
            mine = [one for one in self._mine(found.user) if one.trashed_at is None]
            data = {"collectives": [_collective_json(one) for one in mine]}
        return _named(ocs_reply(request, data), found.user)

    async def _one(self, request: Request) -> Response:
        found = self._gate.identify(request, "ocs")
        if isinstance(found, Refusal):
            return refuse_ocs(request, found)
        match = _ONE.fullmatch(request.path_params["path"])
        if match is None:
            return _named(ocs_reply(request, code=OCS_UNKNOWN, message="Invalid query"), found.user)
        of_id = [one for one in self._mine(found.user) if one.id == int(match["id"])]
        # One in the trash is only there to be deleted for good.
        if not of_id or (of_id[0].trashed_at is not None and not match["trash"]):
            message = f"Collective not found: {match['id']}"
            return _named(ocs_reply(request, code=404, message=message), found.user)
        sent: Fields = json.loads(await request.body() or b"{}")
        number = None if match["page"] is None else int(match["page"])
        if match["pages"] is None:
            data: Fields | None = self._remove(of_id[0], for_good=match["trash"] is not None)
        else:
            data = self._pages(found.user, of_id[0], number, sent, making=request.method == "POST")
        if number == 0 and request.method == "POST":
            # The page is made, but not put in order below its parent.
            return _named(ocs_reply(request, code=404, message="File not found: 0"), found.user)
        if data is None:
            return _named(ocs_reply(request, code=404, message="Page not found"), found.user)
        return _named(ocs_reply(request, data), found.user)

    def _mine(self, user: User) -> list[StoredCollective]:
        return [one for one in self._context.state.store(CollectiveStore) if one.owner == user.uid]

    def _remove(self, one: StoredCollective, *, for_good: bool) -> Fields:
        if for_good:
            self._context.state.store(CollectiveStore).remove(one)
        else:
            one.trashed_at = int(self._context.clock().timestamp())
        return {"collective": _collective_json(one)}

    def _pages(
        self, user: User, one: StoredCollective, number: int | None, sent: Fields, *, making: bool
    ) -> Fields | None:
        top = user.files.get(one.folder)
        known = {node.file_id: node for node in _page_files(top)}
        if number is None:
            return {"pages": [_page_json(user, one, node) for node in known.values()]}
        if making and number == 0:
            number = top.children[_INDEX].file_id
        node = known.get(number)
        if node is None:
            return None
        if making:
            node = _make_below(user, node, sent["title"])
        return {"page": _page_json(user, one, node)}


def add(state: State, user: User, name: str, emoji: str | None = None) -> StoredCollective:
    """Create a collective with its first page."""
    made = StoredCollective(len(state.store(CollectiveStore)) + 1, name, emoji, user.uid)
    state.store(CollectiveStore).append(made)
    user.files.make_folder(made.folder, parents=True)
    user.files.put(f"{made.folder}/{_INDEX}", _WELCOME)
    return made


def _named(response: Response, user: User) -> Response:
    response.headers["X-User-Id"] = user.uid
    return response


def _page_files(folder: Node) -> Iterator[Node]:
    """List the files of pages, each before those below it."""
    if _INDEX in folder.children:
        yield folder.children[_INDEX]
    for node in folder.sorted_children():
        if node.is_folder:
            yield from _page_files(node)
        elif node.name.endswith(".md") and node.name != _INDEX:
            yield node


def _make_below(user: User, parent: Node, title: str) -> Node:
    """Create a page; its parent becomes a folder with an index, if it was none."""
    home = parent.path.rpartition("/")[0]
    if parent.name != _INDEX:
        home = parent.path.removesuffix(".md")
        user.files.make_folder(home)
        user.files.move(parent.path, f"{home}/{_INDEX}")
    name = _ILLEGAL.sub("", title.replace("/", "-")).strip(" .") or "New Page"
    count, free = 1, name
    while user.files.find(f"{home}/{free}.md") or user.files.find(f"{home}/{free}"):
        count += 1
        free = f"{name} ({count})"
    return user.files.put(f"{home}/{free}.md", b"")


def _collective_json(one: StoredCollective) -> Fields:
    return {
        "id": one.id,
        "slug": one.name.replace(" ", "-"),
        "circleId": f"circle{one.id}",
        "emoji": one.emoji,
        "trashTimestamp": one.trashed_at,
        "pageMode": 0,
        "name": one.name,
        "level": 9,
        "editPermissionLevel": 1,
        "sharePermissionLevel": 1,
        "canEdit": True,
        "canShare": True,
        "shareToken": None,
        "isPageShare": False,
        "sharePageId": 0,
        "shareEditable": False,
        "userPageOrder": 0,
        "userShowMembers": True,
        "userShowRecentPages": True,
        "userFavoritePages": [],
        "canLeave": False,
    }


def _page_json(user: User, one: StoredCollective, node: Node) -> Fields:
    folder = node.path.rpartition("/")[0]
    inside = folder.removeprefix(one.folder).strip("/")
    is_index = node.name == _INDEX
    title = (inside.rpartition("/")[2] or "Landing page") if is_index else node.name.removesuffix(".md")
    above = folder.rpartition("/")[0] if is_index else folder
    parent = user.files.get(f"{above}/{_INDEX}").file_id if inside or not is_index else 0
    return {
        "id": node.file_id,
        "slug": title.replace(" ", "-") if inside or not is_index else "",
        "lastUserId": user.uid,
        "lastUserDisplayName": user.display_name,
        "emoji": None,
        "subpageOrder": [],
        "isFullWidth": False,
        "tags": [],
        "trashTimestamp": None,
        "title": title,
        "timestamp": node.modified_at,
        "size": node.size,
        "fileName": node.name,
        "filePath": inside,
        "filePathString": inside.replace("/", " - "),
        "collectivePath": one.folder.lstrip("/"),
        "parentId": parent,
        "shareToken": None,
        "linkedPageIds": [],
    }
