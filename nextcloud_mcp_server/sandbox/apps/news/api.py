"""The API 1.3 of the News app, as version 28.7.0 answered it."""

import json
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.apps.news.store import FeedStore, StoredArticle, StoredFeeds
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, refuse_json
from nextcloud_mcp_server.sandbox.reply import empty_html, json_reply

_MARKS = {
    "read": ("unread", False),
    "unread": ("unread", True),
    "star": ("starred", True),
    "unstar": ("starred", False),
}
_MARK = re.compile(rf"items/(?:(?P<id>\d+)/)?(?P<mark>{'|'.join(_MARKS)})(?P<several>/multiple)?")
_COMBINED = {"message": "Setting getRead on an already filtered list is not allowed!"}
_NOT_FOUND = "Did expect one result but found none when executing: query …"
_FEED, _FOLDER, _STARRED, _ALL = "0123"

Fields = dict[str, Any]


class NewsApi:
    """Answers below /apps/news/api/v1-3."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/apps/news/api/v1-3/{path:path}", self._answer, methods=["GET", "POST"])]

    async def _answer(self, request: Request) -> Response:
        # It is open to other origins, like the Notes API.
        person = self._gate.identify(request, "notes")
        if isinstance(person, Refusal):
            return refuse_json(person)
        path, store = request.path_params["path"], self._context.state.store(FeedStore).get(person.user.uid)
        found = _answer(request, path, store or StoredFeeds())
        if request.method == "POST" and (marking := _MARK.fullmatch(path)):
            several = json.loads(await request.body()).get("itemIds") if marking["several"] else None
            numbers: list[int] = [int(marking["id"])] if several is None else several
            found = _mark(store or StoredFeeds(), numbers, marking["mark"], several=several is not None)
        response = empty_html(404) if found is None else found
        response.headers["X-User-Id"] = person.user.uid
        return response


def _answer(request: Request, path: str, store: StoredFeeds) -> Response | None:
    """Answer what only reads."""
    match request.method, path:
        case "GET", "folders":
            folders: list[Fields] = [
                {"id": number, "name": name, "opened": True, "feeds": []}
                for number, name in store.folders.items()
            ]
            return json_reply({"folders": folders})
        case "GET", "feeds":
            return json_reply(_feeds(store))
        case "GET", "items":
            return json_reply(_items(request, store))
        case _:
            return None


def _feeds(store: StoredFeeds) -> Fields:
    unread = [one.feed_id for one in store.articles if one.unread]
    feeds = [{**feed, "unreadCount": unread.count(feed["id"])} for feed in store.feeds]
    found: Fields = {"starredCount": sum(one.starred for one in store.articles), "feeds": feeds}
    return found | ({"newestItemId": store.articles[-1].id} if store.articles else {})


def _items(request: Request, store: StoredFeeds) -> Fields:
    asked = request.query_params
    kind, of = asked.get("type", _ALL), int(asked.get("id", "0"))
    unread_only, before = asked.get("getRead") == "false", int(asked.get("offset", "0"))
    if kind == _STARRED and unread_only:
        return _COMBINED
    found = [
        one.document()
        for one in reversed(store.articles)
        if _is_of(store, one, kind, of)
        and (one.unread or not unread_only)
        and (one.id < before or not before)
    ]
    size = int(asked.get("batchSize", "-1"))
    return {"items": found[:size] if size > 0 else found}


def _is_of(store: StoredFeeds, one: StoredArticle, kind: str, of: int) -> bool:
    if kind == _FEED:
        return one.feed_id == of
    if kind == _FOLDER:
        return one.feed_id in {feed["id"] for feed in store.feeds if feed["folderId"] == (of or None)}
    return one.starred or kind == _ALL


def _mark(store: StoredFeeds, numbers: list[int], mark: str, *, several: bool) -> Response:
    name, value = _MARKS[mark]
    known: dict[int, StoredArticle] = {one.id: one for one in store.articles}
    for number in numbers:
        if number in known:
            setattr(known[number], name, value)
        elif not several:
            return json_reply({"message": _NOT_FOUND}, status=404)
    return json_reply(None if several else [])
