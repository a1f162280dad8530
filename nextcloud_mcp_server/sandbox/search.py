"""SEARCH on the DAV root: the query language of files."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from starlette.responses import PlainTextResponse, Response

from nextcloud_mcp_server.sandbox.dav_request import Element, parse_xml
from nextcloud_mcp_server.sandbox.dav_xml import (
    DAV,
    NC,
    OC,
    DavFault,
    bad_request,
    multistatus,
)
from nextcloud_mcp_server.sandbox.node import Node
from nextcloud_mcp_server.sandbox.propfind import Place, find_properties

_TYPE = 'application/xml; charset="utf-8"'
_PAGING = "https://github.com/icewind1991/SearchDAV/ns"

Key = str | int
Test = Callable[[Node], bool]

_KEYS: dict[str, Callable[[Node], Key]] = {
    f"{{{DAV}}}displayname": lambda node: node.name,
    f"{{{DAV}}}getcontenttype": lambda node: "httpd/unix-directory" if node.is_folder else node.mime,
    f"{{{DAV}}}getlastmodified": lambda node: node.modified_at,
    f"{{{NC}}}upload_time": lambda node: node.uploaded_at,
    f"{{{OC}}}size": lambda node: node.size,
    f"{{{OC}}}favorite": lambda node: int(node.favorite),
    f"{{{OC}}}fileid": lambda node: node.file_id,
}


class UnknownProperty(Exception):
    """A query names a property that cannot be searched."""


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed search request."""

    select: list[str]
    scope: str
    test: Test
    order: list[tuple[Callable[[Node], Key], bool]]
    limit: int | None
    first: int


def answer_search(body: bytes, place: Place) -> Response:
    """Run a search over one user's files."""
    try:
        query = _parse(body)
    except UnknownProperty:
        return PlainTextResponse(
            "requested search property is not a valid property for this scope",
            400,
            {"Content-Type": _TYPE},
        )
    prefix = f"/files/{place.tree.owner}"
    folder = None
    if query.scope == prefix or query.scope.startswith(f"{prefix}/"):
        folder = place.tree.get(query.scope.removeprefix(prefix))
    if folder is None or not folder.is_folder:
        raise DavFault(500, "InvalidArgumentException", "Search is only supported on directories")
    found = [node for node in folder.walk() if query.test(node)]
    for key, descending in reversed(query.order):
        found.sort(key=key, reverse=descending)
    stop = None if query.limit is None else query.first + query.limit
    page = found[query.first : stop]
    return multistatus(
        [find_properties(place, node, query.select) for node in page], headers={"Content-Type": _TYPE}
    )


def _parse(body: bytes) -> Query:
    search = parse_xml(body).find("basicsearch")
    if search is None:
        raise bad_request("The search request has no basicsearch")
    where = search.find("where")
    conditions = () if where is None else where.children
    limits = search.find("limit")
    limit = search.find("limit", "nresults")
    first = None if limits is None else limits.find("firstresult", uri=_PAGING)
    select = search.find("select", "prop")
    scope = search.find("from", "scope", "href")
    orderby = search.find("orderby")
    orders = () if orderby is None else orderby.every("order")
    return Query(
        select=[] if select is None else [child.name for child in select.children],
        scope="" if scope is None else (scope.text).rstrip("/"),
        test=_compile(conditions[0]) if conditions else lambda _: True,
        order=[_order(order) for order in orders],
        limit=None if limit is None else int(limit.text or "0"),
        first=0 if first is None else int(first.text or "0"),
    )


def _order(order: Element) -> tuple[Callable[[Node], Key], bool]:
    return _key(order), order.find("descending") is not None


def _compile(condition: Element) -> Test:
    name = condition.name.removeprefix(f"{{{DAV}}}")
    if name in {"and", "or"}:
        tests = [_compile(child) for child in condition.children]
        join = all if name == "and" else any
        return lambda node: join(test(node) for test in tests)
    if name == "not":
        inverted = _compile(condition.children[0])
        return lambda node: not inverted(node)
    if name == "is-collection":
        return lambda node: node.is_folder
    return _comparison(name, condition)


def _comparison(name: str, condition: Element) -> Test:
    key = _key(condition)
    literal = condition.find("literal")
    text = "" if literal is None else literal.text
    if name == "like":
        pattern = _like(text)
        return lambda node: pattern.fullmatch(str(key(node))) is not None
    compare = _COMPARISONS.get(name)
    if compare is None:
        raise bad_request(f"Unknown operator {name}")
    return lambda node: compare(key(node), _typed(text, key(node)))


_COMPARISONS: dict[str, Callable[[Key, Key], bool]] = {
    "eq": lambda left, right: left == right,
    "gt": lambda left, right: _sortable(left) > _sortable(right),
    "gte": lambda left, right: _sortable(left) >= _sortable(right),
    "lt": lambda left, right: _sortable(left) < _sortable(right),
    "lte": lambda left, right: _sortable(left) <= _sortable(right),
}


def _sortable(key: Key) -> tuple[int, str]:
    return (key, "") if isinstance(key, int) else (0, key)


def _key(holder: Element) -> Callable[[Node], Key]:
    prop = holder.find("prop")
    name = "" if prop is None or not prop.children else prop.children[0].name
    key = _KEYS.get(name)
    if key is None:
        raise UnknownProperty(name)
    return key


def _typed(text: str, like: Key) -> Key:
    if isinstance(like, str):
        return text
    if text in {"true", "yes"}:
        return 1
    try:
        return int(text)
    except ValueError:
        try:
            return int(datetime.fromisoformat(text).timestamp())
        except ValueError:
            return 0


def _like(text: str) -> re.Pattern[str]:
    """Turn a LIKE pattern into a regular expression; a backslash escapes % and _."""
    parts: list[str] = []
    for found in re.finditer(r"\\(.)|(%)|(_)|(.)", text, re.DOTALL):
        escaped, percent, underscore, plain = found.groups()
        if percent or underscore:
            parts.append(".*" if percent else ".")
        else:
            parts.append(re.escape(escaped or plain))
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)
