"""The API 2 of the Bookmarks app, as the code of version 16.2.6 has it: queries, changes and its trash."""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.declaration import SandboxApp
from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, refuse_json
from nextcloud_mcp_server.sandbox.reply import empty_html, json_reply
from nextcloud_mcp_server.sandbox.state import State, User

_TOP = -1
_PATH = re.compile(
    r"bookmark(?:/(?P<id>\d+))?|folder/(?P<folder>-?\d+)/bookmarks/(?P<inside>\d+)(?P<undo>/undelete)?"
)
_SCHEMES = re.compile(r"(?:https?|ftps?|sftp|file|javascript):", re.IGNORECASE)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_LONGEST = 1024

Fields = dict[str, Any]


@dataclass(slots=True)
class StoredBookmark:
    """One bookmark; `trashed` are the folders from which it was deleted."""

    id: int
    owner: str
    url: str
    title: str
    description: str
    added_at: int
    changed_at: int
    tags: list[str] = field(default_factory=list[str])
    folders: set[int] = field(default_factory=set[int])
    trashed: set[int] = field(default_factory=set[int])


class BookmarkStore:
    """The bookmarks of all users, and the folders of each beside the top one."""

    def __init__(self) -> None:
        self.bookmarks: dict[int, StoredBookmark] = {}
        self.folders: dict[str, set[int]] = {}
        self.ids = itertools.count(1)

    def of(self, user: User) -> Iterator[StoredBookmark]:
        """Give what a user has, the last changed first."""
        mine = (one for one in self.bookmarks.values() if one.owner == user.uid)
        return iter(sorted(mine, key=lambda one: (-one.changed_at, one.id)))

    def has_folder(self, user: User, folder: int) -> bool:
        """Say whether a user has a folder."""
        return folder == _TOP or folder in self.folders.get(user.uid, ())


class BookmarksApi:
    """Answers below /apps/bookmarks/public/rest/v2."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate

    def routes(self) -> list[BaseRoute]:
        """Make the routes."""
        path = "/apps/bookmarks/public/rest/v2/{path:path}"
        return [Route(path, self._answer, methods=["GET", "POST", "PUT", "DELETE"])]

    @property
    def _store(self) -> BookmarkStore:
        return self._context.state.store(BookmarkStore)

    async def _answer(self, request: Request) -> Response:
        found = _PATH.fullmatch(request.path_params["path"])
        if found is None:
            return empty_html(404)
        # It is open to other origins, like the Notes API.
        person = self._gate.identify(request, "notes")
        if isinstance(person, Refusal):
            return refuse_json(person)
        sent: Fields = json.loads(await request.body() or b"{}")
        response = self._respond(request, person.user, found, sent)
        response.headers["X-User-Id"] = person.user.uid
        return response

    def _respond(self, request: Request, user: User, found: re.Match[str], sent: Fields) -> Response:
        number, method = found["id"] or found["inside"], request.method
        one = self._store.bookmarks.get(int(number)) if number else None
        mine = one if one is not None and one.owner == user.uid else None
        if found["folder"]:
            undo = bool(found["undo"])
            is_known = method == ("POST" if undo else "DELETE")
            return self._move(user, mine, int(found["folder"]), undo=undo) if is_known else empty_html(405)
        if found["id"]:
            return self._single(method, user, mine, sent)
        return self._query(request, user) if method == "GET" else self._create(user, sent)

    def _single(self, method: str, user: User, mine: StoredBookmark | None, sent: Fields) -> Response:
        if method == "GET":
            return _missing(404) if mine is None else _item(mine)
        if method == "PUT":
            return _error("Could not edit bookmark", 404) if mine is None else self._edit(user, mine, sent)
        # Without a word about one that is not there.
        self._store.bookmarks.pop(mine.id if mine else 0, None)
        return json_reply({"status": "success"})

    def _query(self, request: Request, user: User) -> Response:
        query = request.query_params
        words = [
            value.casefold() for name, value in query.multi_items() if re.fullmatch(r"search\[\d*\]", name)
        ]
        tags = {value for name, value in query.multi_items() if re.fullmatch(r"tags\[\d*\]", name)}
        folder = query.get("folder")
        if folder is not None and not self._store.has_folder(user, int(folder)):
            return _missing(400)
        every = all if query.get("conjunction", "or") == "and" else any
        rows = [
            one
            for one in self._store.of(user)
            if one.folders
            and (folder is None or int(folder) in one.folders)
            and ("url" not in query or one.url == normalised(query["url"]))
            and tags <= set(one.tags)
            and (not words or every(word in _searched(one) for word in words))
        ]
        page, limit = int(query.get("page", 0)), int(query.get("limit", 10))
        shown = rows if page == -1 else rows[page * limit : (page + 1) * limit]
        return json_reply({"data": [bookmark_json(one) for one in shown], "status": "success"})

    def _create(self, user: User, sent: Fields) -> Response:
        folders = set(map(int, sent.get("folders") or [_TOP]))
        if not all(self._store.has_folder(user, folder) for folder in folders):
            return _error("Could not add bookmark", 400)
        url = sent.get("url") or ""
        url = normalised(url if _SCHEMES.match(url) else f"http://{url}")
        if urlsplit(url).netloc == "":
            return _error("Invalid URL", 400)
        one = next((one for one in self._store.of(user) if one.url == url), None)
        if one is None:
            # The title of the page, which nobody fetches here.
            title, now = sent.get("title") or "", self._now
            one = StoredBookmark(next(self._store.ids), user.uid, url, title, "", now, now)
            self._store.bookmarks[one.id] = one
        self._set(one, {**sent, "url": url, "tags": [*one.tags, *(sent.get("tags") or [])], "folders": None})
        one.folders |= folders
        one.trashed -= folders
        return _item(one)

    def _edit(self, user: User, one: StoredBookmark, sent: Fields) -> Response:
        url, folders = sent.get("url"), sent.get("folders")
        if folders is not None and not all(self._store.has_folder(user, int(folder)) for folder in folders):
            return _error("Insufficient permissions", 403)
        if url is not None and any(other.url == url and other is not one for other in self._store.of(user)):
            return _error("Bookmark already exists", 400)
        if url is not None and not _SCHEMES.match(url):
            return _error("Invald URL", 400)
        self._set(one, sent)
        return _item(one)

    def _set(self, one: StoredBookmark, sent: Fields) -> None:
        one.url = sent.get("url") or one.url
        one.title = one.title if sent.get("title") is None else sent["title"][:_LONGEST]
        one.description = (
            one.description if sent.get("description") is None else sent["description"][:_LONGEST]
        )
        one.tags = one.tags if sent.get("tags") is None else list(dict.fromkeys(sent["tags"]))
        one.folders = one.folders if sent.get("folders") is None else set(map(int, sent["folders"]))
        one.changed_at = self._now

    def _move(self, user: User, one: StoredBookmark | None, folder: int, *, undo: bool) -> Response:
        """Take a bookmark out of a folder into the trash, or back."""
        if one is None or not self._store.has_folder(user, folder):
            return _error("Unauthorized", 403) if undo else _missing(400)
        source, target = (one.trashed, one.folders) if undo else (one.folders, one.trashed)
        if folder in source:
            source.discard(folder)
            target.add(folder)
        return json_reply({"status": "success"})

    @property
    def _now(self) -> int:
        return int(self._context.clock().timestamp())


def normalised(url: str) -> str:
    """Write an address as browsers do (URL Standard): at least the path is /, and no port is the default."""
    parts = urlsplit(url)
    if not parts.netloc:
        return url
    netloc = parts.netloc.lower().removesuffix(_DEFAULT_PORTS.get(parts.scheme, ""))
    return parts._replace(netloc=netloc, path=parts.path or "/").geturl()


def bookmark_json(one: StoredBookmark) -> Fields:
    """Describe a bookmark."""
    return {
        "id": one.id,
        "url": "" if one.url.lower().startswith("javascript:") else one.url,
        "target": one.url,
        "title": one.title,
        "description": one.description,
        "lastmodified": one.changed_at,
        "added": one.added_at,
        "clickcount": 0,
        "lastPreview": 0,
        "available": True,
        "archivedFile": None,
        "userId": one.owner,
        "textContent": None,
        "htmlContent": None,
        "folders": sorted(one.folders),
        "tags": one.tags,
    }


def _searched(one: StoredBookmark) -> str:
    return "\n".join((one.url, one.title, one.description, *one.tags)).casefold()


def _item(one: StoredBookmark) -> Response:
    return json_reply({"item": bookmark_json(one), "status": "success"})


def _missing(status: int) -> Response:
    return _error("Not found", status)


def _error(message: str, status: int) -> Response:
    return json_reply({"status": "error", "data": [message]}, status=status)


def _capability(_context: Context, _user: User) -> Fields:
    return {"javascript-bookmarks": True, "hash-functions": ["xxh32", "murmur3a", "sha256"]}


_ALICE_BOOKMARKS = (
    ("https://movers.example.test/", "Movers", "For the office move.", ["office"]),
    ("https://garden.example.test/hedges", "Cutting hedges", "", ["garden", "winter"]),
)


def _add_bookmarks(state: State) -> None:
    """Give alice two bookmarks."""
    store, now = state.store(BookmarkStore), int(state.clock().timestamp())
    for url, title, description, tags in _ALICE_BOOKMARKS:
        number = next(store.ids)
        made = StoredBookmark(number, "alice", url, title, description, now, now, list(tags), {_TOP})
        store.bookmarks[number] = made


app = SandboxApp(
    "bookmarks", api=BookmarksApi, capability=_capability, menu=("Bookmarks", 10), seed=_add_bookmarks
)
