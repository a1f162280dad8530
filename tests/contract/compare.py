"""Compares a response with the recorded one: status, relevant headers, body."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard
from xml.etree import ElementTree as ET

import httpx2

from tests.contract.recording import Recording

_EXACT = (
    "content-type",
    "x-user-id",
    "x-notes-api-versions",
    "x-notes-chunk-pending",
    "x-nextcloud-maintenance-mode",
    "x-oc-mtime",
    "content-range",
    "content-disposition",
    "allow",
    "location",
    "retry-after",
    "www-authenticate",
    "cache-control",
    "access-control-allow-origin",
    "access-control-allow-methods",
    "access-control-max-age",
    "access-control-allow-headers",
    "access-control-allow-credentials",
)
_PRESENT = (
    "etag",
    "oc-etag",
    "oc-fileid",
    "last-modified",
    "dav",
    "vary",
    "set-cookie",
    "x-notes-chunk-cursor",
)

# Values that depend on the time: seconds of the day of recording, ids, and counters of the server.
_MOMENTS = range(1_795_700_000, 1_796_000_000)
_VARIABLE_KEYS = frozenset(
    # A browser sets the time zone at the first sign-in.
    {
        "id",
        "used",
        "free",
        "total",
        "relative",
        "firstLoginTimestamp",
        "ETag",
        "filename",
        "groups",
        "timezone",
    }
)
# Capabilities depend on the installation; only those of the Notes app are compared by value.
_OTHER_CAPABILITY = re.compile(r"\.capabilities\.(?!notes\b)")
# AppAPI, which is part of Nextcloud and may be disabled, adds this to the reasons of a failed login.
_OF_AN_APP = re.compile(r"AppAPIAuth has not passed, ")
_HEX = re.compile(r"[0-9a-f]{13}|[0-9a-f]{32}")
_PLACEHOLDER = re.compile(r"<\w+:(\d+) chars>")
_TRASH_TIME = re.compile(r"\.d\d{10}(?=/|$)")
_HTTP_DATE = re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")
_DAV_DATES = frozenset({"getlastmodified", "creationDateTime", "readMarker"})
_DAV_VARIABLE = frozenset(
    {
        *_DAV_DATES,
        "getetag",
        "id",
        "fileid",
        "quota-used-bytes",
        "quota-available-bytes",
        "upload_time",
        "creation_time",
        "sync-token",
        "getctag",
        "trashbin-deletion-time",
        "has-preview",
    }
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One response and the recorded one, whose `text` and `headers` have this server's values."""

    recording: Recording
    response: httpx2.Response
    text: str
    headers: Mapping[str, str]
    loose: bool
    ignore: frozenset[str]

    def differences(self) -> list[str]:
        """List all differences; an empty list is a pass."""
        found = list(self._headers())
        if self.recording.status != self.response.status_code:
            found.insert(0, f"status {self.response.status_code}, recorded {self.recording.status}")
            found.append(f"body {self.response.text[:400]!r}, recorded {self.text[:400]!r}")
            return found
        return [*found, *self._body()]

    def _headers(self) -> Iterator[str]:
        recorded = self.headers
        for name in _EXACT:
            if name in self.ignore:
                continue
            expected, actual = recorded.get(name), self.response.headers.get(name)
            if name == "location":
                expected, actual = _in_order(expected), _in_order(actual)
            if not _header_matches(expected, actual):
                yield f"{name}: {actual!r}, recorded {expected!r}"
        for name in _PRESENT:
            if name in self.ignore:
                continue
            if name == "set-cookie" and "Cookie" in self.recording.headers:
                # Which cookies Nextcloud renews depends on the session that was sent.
                continue
            expected, actual = recorded.get(name), self.response.headers.get(name)
            if (expected is None) != (actual is None):
                yield f"{name}: {actual!r}, recorded {expected!r}"
            elif name in {"etag", "oc-etag"} and expected and actual and _quotes(expected) != _quotes(actual):
                yield f"{name} is quoted otherwise: {actual!r}, recorded {expected!r}"

    def _body(self) -> Iterator[str]:
        answer = self.recording.answer
        kind = self.recording.answer_headers.get("content-type", "")
        if isinstance(answer, Mapping) and "html_page" in answer:
            yield from self._page(str(answer.get("title")))
        elif isinstance(answer, Mapping) and "base64" in answer:
            if self.response.content != base64.b64decode(answer["base64"]):
                yield f"bytes {self.response.content[:80]!r}"
        elif not self.text:
            if self.response.content:
                yield f"body {self.response.text[:200]!r}, recorded none"
        elif kind.startswith("application/json"):
            yield from _json("", json.loads(self.text), self.response.json(), self.ignore)
        elif "<d:multistatus" in self.text:
            yield from _multistatus(self.text, self.response.text, loose=self.loose)
        elif self.text.startswith("<?xml") and "<ocs>" in self.text:
            yield from _ocs_xml(self.text, self.response.text)
        elif _OF_AN_APP.sub("", self.response.text) != _OF_AN_APP.sub("", self.text):
            yield f"body {self.response.text!r}, recorded {self.text!r}"

    def _page(self, title: str) -> Iterator[str]:
        page = self.response.text
        if "<html" not in page.lower():
            yield f"no HTML page: {page[:200]!r}"
        # The web server's own pages name the status; the texts of Nextcloud's pages are not compared.
        if title[:3].isdigit() and title not in page:
            yield f"page {page[:200]!r}, recorded {title!r}"


def _quotes(etag: str) -> bool:
    return etag.startswith('"')


def _in_order(location: str | None) -> str | None:
    """Sort the query of a URL: its order has no meaning, and differs between servers."""
    path, mark, query = (location or "").partition("?")
    return location and path + mark + "&".join(sorted(query.split("&")))


def _header_matches(expected: str | None, actual: str | None) -> bool:
    if expected is None or actual is None:
        return expected == actual
    return _text_matches(expected, actual)


def _text_matches(expected: str, actual: str) -> bool:
    if expected == actual:
        return True
    parts = [re.escape(part) for part in _PLACEHOLDER.split(expected)[::2]]
    lengths = _PLACEHOLDER.findall(expected)
    if not lengths:
        return False
    pattern = parts[0] + "".join(
        f".{{{length}}}{part}" for length, part in zip(lengths, parts[1:], strict=True)
    )
    return re.fullmatch(pattern, actual) is not None


def _json(where: str, expected: object, actual: object, ignore: frozenset[str]) -> Iterator[str]:
    key = where.rpartition(".")[2]
    if key in ignore:
        return
    if _is_object(expected) and _is_object(actual):
        yield from _json_object(where, expected, actual, ignore)
    elif _is_list(expected) and _is_list(actual):
        yield from _json_list(where, expected, actual, ignore)
    elif type(expected) is not type(actual) or (
        _OTHER_CAPABILITY.search(where) is None and not _value_matches(key, expected, actual)
    ):
        yield f"{where}: {actual!r}, recorded {expected!r}"


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _json_object(
    where: str, expected: dict[str, Any], actual: dict[str, Any], ignore: frozenset[str]
) -> Iterator[str]:
    if where.endswith(".capabilities"):
        # Every app adds its own part; those that this client reads must be there.
        for name in {"core", "files", "notes", "dav"} & expected.keys() - actual.keys():
            yield f"{where} lacks {name}"
    elif _OTHER_CAPABILITY.search(where) is None:
        missing = expected.keys() - actual.keys() - ignore
        added = actual.keys() - expected.keys() - ignore
        if missing or added:
            yield f"{where or 'body'} lacks {sorted(missing)}, adds {sorted(added)}"
    for name in sorted(expected.keys() & actual.keys()):
        yield from _json(f"{where}.{name}", expected[name], actual[name], ignore)


def _json_list(where: str, expected: list[Any], actual: list[Any], ignore: frozenset[str]) -> Iterator[str]:
    # The resource providers of teams depend on the installed apps.
    if where.rpartition(".")[2] in _VARIABLE_KEYS | {"teamResourceProviders"}:
        return
    if len(expected) != len(actual):
        yield f"{where or 'body'} has {len(actual)} entries, recorded {len(expected)}: {actual!r:.300}"
        return
    for index, (left, right) in enumerate(zip(_by_id(expected), _by_id(actual), strict=True)):
        yield from _json(f"{where}[{index}]", left, right, ignore)


def _by_id(items: list[Any]) -> list[Any]:
    # The cells of a row come in the order of the database, which differs between PostgreSQL and SQLite.
    for key in ("id", "columnId"):
        if all(isinstance(item, dict) and key in item for item in items):
            return sorted(items, key=lambda item: item[key])
    return items


def _value_matches(key: str, expected: object, actual: object) -> bool:
    if expected == actual or key in _VARIABLE_KEYS:
        return True
    if isinstance(expected, int) and not isinstance(expected, bool):
        return expected // 1000 in _MOMENTS or expected in _MOMENTS
    if isinstance(expected, str) and isinstance(actual, str):
        if key == "etag" or _HEX.fullmatch(expected):
            return _HEX.fullmatch(actual) is not None
        return _text_matches(expected, actual)
    return False


@dataclass(frozen=True, slots=True)
class _Resource:
    """One response of a multistatus: property text by status and name, nested names included."""

    href: str
    properties: dict[str, dict[str, str]]

    @property
    def kind(self) -> str:
        found = self.properties.get("HTTP/1.1 200 OK", {}).get("resourcetype", "")
        return "folder" if "collection" in found else "file"


def _multistatus(expected: str, actual: str, *, loose: bool) -> Iterator[str]:
    left, right = _resources(_mended(expected)), _resources(actual)
    if loose:
        kinds = {resource.kind: resource for resource in left}
        for resource in right:
            if resource.kind in kinds:
                yield from _same_names(kinds[resource.kind], resource)
        if bool(left) != bool(right):
            yield f"{len(right)} resources, recorded {len(left)}"
        return
    if "truncated" not in expected:
        right = right[: len(left)] if _mended(expected) != expected else right
    wanted = [_TRASH_TIME.sub("", resource.href) for resource in left]
    found = [_TRASH_TIME.sub("", resource.href) for resource in right]
    if sorted(wanted) != sorted(found):
        yield f"hrefs {found}, recorded {wanted}"
        return
    by_href = {_TRASH_TIME.sub("", resource.href): resource for resource in right}
    for resource in left:
        twin = by_href[_TRASH_TIME.sub("", resource.href)]
        yield from _same_names(resource, twin)
        yield from _same_values(resource, twin)


def _mended(text: str) -> str:
    """Close a document whose end was cut off."""
    if text.rstrip().endswith(("</d:multistatus>", "/>")):
        return text
    return text[: text.rindex("</d:response>") + len("</d:response>")] + "</d:multistatus>"


def _resources(text: str) -> list[_Resource]:
    found: list[_Resource] = []
    for response in ET.fromstring(text).iterfind("{DAV:}response"):
        properties: dict[str, dict[str, str]] = {}
        for propstat in response.iterfind("{DAV:}propstat"):
            status = propstat.findtext("{DAV:}status", "")
            prop = propstat.find("{DAV:}prop")
            properties[status] = {child.tag.rpartition("}")[2]: _flat(child) for child in prop or ()}
        found.append(_Resource(response.findtext("{DAV:}href", ""), properties))
    return found


def _flat(element: ET.Element) -> str:
    nested = "".join(f"<{child.tag.rpartition('}')[2]}>{_flat(child)}" for child in element)
    return (element.text or "").strip() + nested


def _same_names(left: _Resource, right: _Resource) -> Iterator[str]:
    expected = {status: list(names) for status, names in left.properties.items()}
    actual = {status: list(names) for status, names in right.properties.items()}
    if expected != actual:
        yield f"{right.href}: properties {actual}, recorded {expected}"


def _same_values(left: _Resource, right: _Resource) -> Iterator[str]:
    expected = left.properties.get("HTTP/1.1 200 OK", {})
    actual = right.properties.get("HTTP/1.1 200 OK", {})
    for name in expected.keys() & actual.keys():
        if name not in _DAV_VARIABLE:
            same = expected[name] == actual[name]
        elif name in _DAV_DATES:
            same = _HTTP_DATE.fullmatch(actual[name]) is not None
        else:
            same = bool(expected[name]) == bool(actual[name])
            same &= expected[name].startswith('"') == actual[name].startswith('"')
            same &= (
                expected[name].lstrip("-").isdigit() == actual[name].lstrip("-").isdigit()
                or '"' in actual[name]
            )
        if not same:
            yield f"{right.href}: {name} is {actual[name]!r}, recorded {expected[name]!r}"


def _ocs_xml(expected: str, actual: str) -> Iterator[str]:
    left, right = ET.fromstring(expected), ET.fromstring(actual)
    for path in ("meta/status", "meta/statuscode", "meta/message", "data/version/major"):
        if left.findtext(path) != right.findtext(path):
            yield f"{path}: {right.findtext(path)!r}, recorded {left.findtext(path)!r}"
    if right.find("data/capabilities") is None:
        yield "no capabilities"
