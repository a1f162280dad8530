"""The API 2 of the Bookmarks app, as version 16.2.6 answers: queries, changes and its trash."""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

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
    r"|(?P<tree>folder)(?:/(?P<branch>\d+))?"
)
_SCHEMES = re.compile(r"(?:https?|s?ftp|file|javascript):", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443, "ftp": 21}
#: What no host has (URL Standard, "forbidden domain code point").
_NO_HOST = re.compile(r"[\x00-\x20#%/:<>?@\[\]\\^`{|}\x7f]")
#: What stays as it is in a path and a query (URL Standard, "path percent-encode set").
_PLAIN = "%!$&'()*+,;=:@/|[]^\\~"
#: In bytes.
_LONGEST = 1024
_LONGEST_TAG = 255

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
        self.folders: dict[str, dict[int, str]] = {}
        self.ids = itertools.count(1)

    def of(self, user: User) -> Iterator[StoredBookmark]:
        """Give what a user has, the last changed first."""
        mine = (one for one in self.bookmarks.values() if one.owner == user.uid)
        return iter(sorted(mine, key=lambda one: (-one.changed_at, one.id)))

    def has_folder(self, user: User, folder: int) -> bool:
        """Say whether a user has a folder."""
        return folder == _TOP or folder in self.folders.get(user.uid, ())

    def is_foreign(self, user: User, folder: int) -> bool:
        """Say whether a folder is another user's."""
        return any(folder in theirs for uid, theirs in self.folders.items() if uid != user.uid)


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
            # A route for OPTIONS has every path.
            return empty_html(405)
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
        if found["tree"]:
            return self._tree(method, user, found["branch"], sent)
        if found["folder"]:
            undo = bool(found["undo"])
            is_known = method == ("POST" if undo else "DELETE")
            return self._move(user, one, int(found["folder"]), undo=undo) if is_known else empty_html(405)
        if found["id"]:
            return self._single(
                method, user, one if one is not None and one.owner == user.uid else None, sent
            )
        if method == "GET":
            return self._query(request, user)
        return self._create(user, sent) if method == "POST" else empty_html(405)

    def _tree(self, method: str, user: User, branch: str | None, sent: Fields) -> Response:
        """List or make folders, all of them below the top one, or delete one."""
        mine = self._store.folders.setdefault(user.uid, {})
        if method == "GET" and branch is None:
            rows = [_folder_json(user, number, title, children=[]) for number, title in mine.items()]
            reply = json_reply({"status": "success", "data": rows})
            reply.headers["Cache-Control"] = "no-cache, must-revalidate"
            return reply
        if method == "POST" and branch is None:
            number = next(self._store.ids)
            mine[number] = sent.get("title") or ""
            return json_reply({"status": "success", "item": _folder_json(user, number, mine[number])})
        if method == "DELETE" and branch is not None:
            mine.pop(int(branch), None)
            for one in self._store.of(user):
                one.folders.discard(int(branch))
            return json_reply({"status": "success"})
        return empty_html(405)

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
        folder, url = query.get("folder"), query.get("url")
        if folder is not None and not self._store.has_folder(user, int(folder)):
            return _missing(400)
        if url is not None and (url := normalised(url)) is None:
            return _error("Failed to parse URL", 400)
        is_deleted = query.get("deleted") == "true"
        every = all if query.get("conjunction", "or") == "and" else any
        rows = [
            one
            for one in self._store.of(user)
            if (one.trashed if is_deleted else one.folders)
            and (folder is None or int(folder) in one.folders)
            and url in (None, one.url)
            and tags <= set(one.tags)
            and (not words or every(word in _searched(one) for word in words))
        ]
        page, limit = int(query.get("page", 0)), int(query.get("limit", 10))
        shown = rows if page == -1 else rows[page * limit : (page + 1) * limit]
        listed = [_row(one, one.trashed if is_deleted else one.folders) for one in shown]
        return json_reply({"data": listed, "status": "success"})

    def _create(self, user: User, sent: Fields) -> Response:
        folders = set(map(int, sent.get("folders") or [_TOP]))
        if not all(self._store.has_folder(user, folder) for folder in folders):
            return _error("Could not add bookmark", 400)
        url, title, description = sent.get("url") or "", sent.get("title"), sent.get("description")
        mine = {one.url: one for one in self._store.of(user)}
        secure = None if _SCHEMES.match(url) else mine.get(normalised(f"https://{url}") or "")
        if (one := mine.get(url) or secure) is None:
            whole = normalised(url if _SCHEMES.match(url) else f"http://{url}")
            if whole is None:
                return _error("Invalid URL", 400)
            now = self._now
            one = mine.get(whole) or StoredBookmark(next(self._store.ids), user.uid, whole, "", "", now, now)
            self._store.bookmarks[one.id] = one
            # Without a title it is that of the page, which nobody fetches here.
            title, description = title or "", description or ""
        _describe(one, title, description)
        one.changed_at = self._now
        if not _add_tags(one, [tag for tag in sent.get("tags") or () if tag not in one.tags]):
            return _error("Could not add bookmark", 400)
        one.folders |= folders
        one.trashed -= folders
        return _item(one)

    def _edit(self, user: User, one: StoredBookmark, sent: Fields) -> Response:
        """Change a bookmark as the app does: one part after the other, and what failed undoes nothing."""
        folders: list[Any] | None = sent.get("folders")
        if any(self._store.is_foreign(user, int(folder)) for folder in folders or ()):
            return _error("Insufficient permissions", 403)
        others = [other for other in self._store.of(user) if other is not one]
        url: str | None = sent.get("url")
        if url is not None and any(other.url == url for other in others if other.folders):
            return _error("Bookmark already exists", 400)
        if url is not None and not _SCHEMES.match(url):
            return _error("Invald URL", 400)
        if folders is not None:
            # Those that do not exist are left out without a word.
            one.folders = {int(folder) for folder in folders if self._store.has_folder(user, int(folder))}
            one.trashed -= one.folders
            if not one.folders:
                del self._store.bookmarks[one.id]
                return json_reply({"item": None, "status": "success"})
        return self._store_parts(one, sent, {other.url for other in others})

    def _store_parts(self, one: StoredBookmark, sent: Fields, taken: set[str]) -> Response:
        if sent.get("tags") is not None:
            one.tags = []
            if not _add_tags(one, sent["tags"]):
                return _error("Could not edit bookmark", 400)
        if sent.get("url") is not None:
            if (whole := normalised(sent["url"])) is None:
                return _error("Invald URL", 400)
            if whole in taken:
                return _error("Could not edit bookmark", 400)
            one.url = whole
        _describe(one, sent.get("title"), sent.get("description"))
        one.changed_at = self._now
        return _item(one)

    def _move(self, user: User, one: StoredBookmark | None, folder: int, *, undo: bool) -> Response:
        """Take a bookmark out of a folder into the trash, or back."""
        if self._store.is_foreign(user, folder) or (one is not None and one.owner != user.uid):
            return _error("Unauthorized", 403) if undo else _missing(400)
        if one is None or not self._store.has_folder(user, folder):
            return _missing(404) if undo else json_reply({"status": "success"})
        source, target = (one.trashed, one.folders) if undo else (one.folders, one.trashed)
        if folder in source:
            source.discard(folder)
            target.add(folder)
        return json_reply({"status": "success"})

    @property
    def _now(self) -> int:
        return int(self._context.clock().timestamp())


def normalised(url: str) -> str | None:
    """Write an address as browsers do (URL Standard); None for a text that is no address."""
    url = url.strip()
    parts = urlsplit(url)
    if parts.scheme == "javascript":
        return url
    if not parts.scheme or (parts.scheme in _PORTS and not parts.netloc):
        return None
    user, at, place = parts.netloc.rpartition("@")
    host, colon, port = place.partition(":")
    if _NO_HOST.search(host):
        return None
    host = host.lower() if host.isascii() else host.lower().encode("idna").decode("ascii")
    netloc = f"{user}{at}{host}" + ("" if port in ("", str(_PORTS.get(parts.scheme))) else colon + port)
    path = parts.path or ("/" if parts.scheme in _PORTS else "")
    path = urljoin("/", path) if "/." in path else path
    path, query = quote(path, safe=_PLAIN), quote(parts.query, safe=_PLAIN + "?").replace("'", "%27")
    return urlunsplit((parts.scheme, netloc, path, query, quote(parts.fragment, safe=_PLAIN + "?#")))


def _add_tags(one: StoredBookmark, tags: list[str]) -> bool:
    """Add one tag after the other, up to one that the database refuses."""
    for tag in map(str.strip, tags):
        if tag in one.tags or len(tag) > _LONGEST_TAG:
            return False
        # PHP holds "0" for empty.
        one.tags += [] if tag in ("", "0") else [tag]
    return True


def _describe(one: StoredBookmark, title: str | None, description: str | None) -> None:
    one.title = one.title if title is None else _cut(title)
    one.description = one.description if description is None else _cut(description)


def _cut(text: str) -> str:
    """Shorten a text by bytes."""
    sent = text.encode()
    if len(sent) <= _LONGEST:
        return text
    return sent[: _LONGEST - 4].decode(errors="replace").replace("\ufffd", "?") + "…"


def _folder_json(user: User, number: int, title: str, **more: list[Fields]) -> Fields:
    return {
        "id": number,
        "title": title,
        "userId": user.uid,
        "userDisplayName": user.display_name,
        "parent_folder": _TOP,
        **more,
    }


def _row(one: StoredBookmark, folders: set[int]) -> Fields:
    """Describe a bookmark in a list, with the folders that count there."""
    return {**bookmark_json(one), "folders": sorted(folders), "textContent": None, "htmlContent": None}


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
        "textContent": "",
        "htmlContent": "",
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
