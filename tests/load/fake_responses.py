"""The responses of the fake Nextcloud: one user's notes and files, shaped like those of a real one.

Everything is built once, so that a request costs a look-up and the measurements show the servers.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

USER = "alice"
PASSWORD = "an app password of nobody"
NOTE_ID = 1007
NOTES = 2_000
BIG_FILE_BYTES = 200 * 1024 * 1024
SMALL_FILE_BYTES = 10_000

_LINE = b"The quick brown fox jumps over the lazy dog; 0123456789 abcdefghijklmnopqrstuvwxyz.\n"
_BLOCK = _LINE * (-(-(1 << 20) // len(_LINE)))
_DATE = "Fri, 27 Nov 2026 21:03:53 GMT"
_JSON = (("Content-Type", "application/json; charset=utf-8"), ("X-User-Id", USER))
_NOTES = (*_JSON, ("X-Notes-API-Versions", "0.2, 1.3, 1.4"), ("Last-Modified", _DATE))
_XML = (("Content-Type", "application/xml; charset=utf-8"), ("DAV", "1, 3, extended-mkcol, nc-paginate"))
_DAV_ROOT = f"/remote.php/dav/files/{USER}"
_TOTALS = {"read10k.txt": SMALL_FILE_BYTES, "big.txt": BIG_FILE_BYTES}
#: Clients use the same prefixes as Nextcloud, by convention.
_ASKED = re.compile(rb"<((?:d|oc|nc):(?!propfind|prop>)[a-z_-]+)\s*/>")
_USUAL = (
    "d:getlastmodified",
    "d:getcontentlength",
    "d:resourcetype",
    "d:getetag",
    "d:getcontenttype",
)
_FOLDERS = {"folder-of-100": 100, "folder-of-1000": 1000}


@dataclass(frozen=True, slots=True)
class Body:
    """A part of the endless text that every file here consists of, generated as it is sent."""

    start: int
    length: int

    def pieces(self) -> list[tuple[int, int]]:
        """List the parts of the repeated block, as (offset, length), that make up the body."""
        found: list[tuple[int, int]] = []
        position, left = self.start, self.length
        while left:
            offset = position % len(_BLOCK)
            size = min(left, len(_BLOCK) - offset)
            found.append((offset, size))
            position, left = position + size, left - size
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: a status, headers, and bytes or a part of a file."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | Body = b""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder in WebDAV."""

    href: str
    properties: Mapping[str, str]


def piece(offset: int, length: int) -> memoryview:
    """Return one part of the repeated block without copying it."""
    return memoryview(_BLOCK)[offset : offset + length]


class Nextcloud:
    """Answers the reads that the measured tools need, and 404 to everything else."""

    def __init__(self) -> None:
        self._fixed = self._build()
        self._notes = [_note(NOTE_ID - 7 + index) for index in range(NOTES)]
        self._lists: dict[str, Answer] = {}
        self._entries = _all_entries()
        self._multistatus: dict[tuple[str, str, bytes], Answer] = {}

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        """Return the response; None when this fake has none."""
        parts = urlsplit(target)
        path = unquote(parts.path).removeprefix("/index.php").rstrip("/")
        if method == "PROPFIND":
            return self._propfind(path, headers.get("depth", "1"), body)
        if method not in {"GET", "HEAD"}:
            return None
        if path.startswith(_DAV_ROOT):
            return _file(path.removeprefix(f"{_DAV_ROOT}/"), headers.get("range"))
        if path.startswith("/apps/notes/api/v1") and path.endswith("/notes"):
            return self._list(parts.query)
        return self._fixed.get(f"GET {path.replace('/v1.3/', '/v1/').replace('/v1.4/', '/v1/')}")

    def _propfind(self, path: str, depth: str, body: bytes) -> Answer | None:
        """Return the requested properties, as Nextcloud does; without a body the default ones."""
        entries = self._entries.get((path, depth))
        if entries is None:
            return None
        key = (path, depth, body)
        if key not in self._multistatus:
            asked = tuple(name.decode() for name in _ASKED.findall(body)) or _USUAL
            self._multistatus[key] = _multistatus(entries, asked)
        return self._multistatus[key]

    def _list(self, query: str) -> Answer:
        if query not in self._lists:
            self._lists[query] = self._make_list({key: values[-1] for key, values in parse_qs(query).items()})
        return self._lists[query]

    def _make_list(self, query: dict[str, str]) -> Answer:
        excluded = set(query.get("exclude", "").split(","))
        size = int(query.get("chunkSize", NOTES))
        start = int(query["chunkCursor"].rpartition("-")[2]) if "chunkCursor" in query else 0
        chunk = self._notes[start : start + size]
        listed = [{key: value for key, value in note.items() if key not in excluded} for note in chunk]
        pending = NOTES - start - len(chunk)
        if pending:
            more = (
                ("X-Notes-Chunk-Cursor", f"1795813608-1795813606-{start + size}"),
                ("X-Notes-Chunk-Pending", str(pending)),
            )
        else:
            more = ()
            listed += [{"id": note["id"]} for note in self._notes[:start]]
        return Answer(200, (*_NOTES, ("ETag", f'"list-{start}-{size}"'), *more), _json(listed))

    def _build(self) -> dict[str, Answer]:
        note = _note(NOTE_ID)
        fixed = {
            "GET /status.php": Answer(200, _JSON[:1], _json(_STATUS)),
            f"GET /apps/notes/api/v1/notes/{NOTE_ID}": Answer(
                200, (*_NOTES, ("ETag", f'"{note["etag"]}"')), _json(note)
            ),
        }
        for version in ("v1", "v2"):
            for name, data in (("user", _USER), ("capabilities", _CAPABILITIES)):
                meta = {"status": "ok", "statuscode": 200 if version == "v2" else 100, "message": "OK"}
                fixed[f"GET /ocs/{version}.php/cloud/{name}"] = Answer(
                    200, _JSON, _json({"ocs": {"meta": meta, "data": data}})
                )
        return fixed


def _all_entries() -> dict[tuple[str, str], tuple[Entry, ...]]:
    """Return the folders: (path, depth) → the entries of the response, the folder itself first."""
    found: dict[tuple[str, str], tuple[Entry, ...]] = {}
    inside: list[Entry] = []
    for name, size in _TOTALS.items():
        inside.append(_entry(name, size=size))
        found[f"{_DAV_ROOT}/{name}", "0"] = found[f"{_DAV_ROOT}/{name}", "1"] = (inside[-1],)
    for name, count in _FOLDERS.items():
        inside.append(_entry(name, size=None))
        files = [_entry(f"{name}/file-{index:04}.txt", size=168) for index in range(count)]
        found[f"{_DAV_ROOT}/{name}", "0"] = (inside[-1],)
        found[f"{_DAV_ROOT}/{name}", "1"] = (inside[-1], *files)
    root = _entry("", size=None)
    found[_DAV_ROOT, "0"] = (root,)
    found[_DAV_ROOT, "1"] = (root, *inside)
    return found


def _file(name: str, wanted: str | None) -> Answer | None:
    total = _TOTALS.get(name)
    if total is None:
        return None
    headers = (
        ("Content-Type", "text/plain;charset=UTF-8"),
        ("Last-Modified", _DATE),
        ("ETag", f'"{_etag(name)}"'),
        ("OC-ETag", f'"{_etag(name)}"'),
    )
    if wanted is None:
        return Answer(200, headers, Body(0, total))
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    start = int(first) if first else max(0, total - int(last))
    end = min(int(last), total - 1) if first and last else total - 1
    if start >= total:
        return Answer(416, _XML, b'<?xml version="1.0"?><d:error xmlns:d="DAV:"/>')
    ranged = (*headers, ("Content-Range", f"bytes {start}-{end}/{total}"))
    return Answer(206, ranged, Body(start, end - start + 1))


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _etag(name: str) -> str:
    return f"{sum(map(ord, name)) * 7919:032x}"


def _note(note_id: int) -> dict[str, object]:
    return {
        "id": note_id,
        "title": f"Note {note_id}",
        "modified": 1_700_000_000 + note_id,
        "category": ("", "Work", "Work/Projekt A")[note_id % 3],
        "favorite": note_id % 10 == 0,
        "readonly": False,
        "internalPath": f"/Notes/Note {note_id}.md",
        "shareTypes": [],
        "isShared": False,
        "error": False,
        "errorType": "",
        "content": f"# Note {note_id}\n\n" + _LINE.decode() * 12,
        "etag": _etag(f"note-{note_id}"),
    }


def _entry(name: str, *, size: int | None) -> Entry:
    """Return a file (with a size) or a folder, as in WebDAV."""
    folder = size is None
    number = sum(map(ord, name)) % 90_000 + 100
    properties = {
        "d:getlastmodified": _DATE,
        "d:getetag": f"&quot;{_etag(name)}&quot;",
        "d:resourcetype": "<d:collection/>" if folder else "",
        "d:displayname": name.rpartition("/")[2],
        "oc:id": f"{number:08}ocfakebench",
        "oc:fileid": str(number),
        "oc:permissions": "RGDNVCK" if folder else "RGDNVW",
        "oc:size": "4096" if folder else str(size),
        "oc:favorite": "0",
        "oc:owner-id": USER,
        "oc:owner-display-name": "Alice Example",
        "oc:share-types": "",
        "nc:has-preview": "false",
        "nc:mount-type": "",
        "nc:system-tags": "",
    }
    if not folder:
        properties |= {"d:getcontenttype": "text/plain", "d:getcontentlength": str(size)}
    return Entry(f"{_DAV_ROOT}/{name}{'/' if folder and name else ''}", properties)


def _respond(entry: Entry, asked: tuple[str, ...]) -> str:
    """Return one response element: first the properties found, then the missing ones."""
    known = "".join(_element(name, entry.properties[name]) for name in asked if name in entry.properties)
    unknown = "".join(f"<{name}/>" for name in asked if name not in entry.properties)
    found = f"<d:propstat><d:prop>{known}</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat>"
    if unknown:
        found += (
            f"<d:propstat><d:prop>{unknown}</d:prop><d:status>HTTP/1.1 404 Not Found</d:status></d:propstat>"
        )
    return f"<d:response><d:href>{entry.href}</d:href>{found}</d:response>"


def _element(name: str, value: str) -> str:
    return f"<{name}>{value}</{name}>" if value else f"<{name}/>"


def _multistatus(entries: tuple[Entry, ...], asked: tuple[str, ...]) -> Answer:
    head = (
        '<?xml version="1.0"?>\n<d:multistatus xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns" '
        'xmlns:oc="http://owncloud.org/ns" xmlns:nc="http://nextcloud.org/ns">'
    )
    responses = "".join(_respond(entry, asked) for entry in entries)
    return Answer(207, _XML, f"{head}{responses}</d:multistatus>\n".encode())


_STATUS = {
    "installed": True,
    "maintenance": False,
    "needsDbUpgrade": False,
    "version": "32.0.1.2",
    "versionstring": "32.0.1",
    "edition": "",
    "productname": "Nextcloud",
    "extendedSupport": False,
}
_USER: dict[str, object] = {
    "enabled": True,
    "id": USER,
    "email": "alice@example.test",
    "displayname": "Alice Example",
    "display-name": "Alice Example",
    "quota": {"free": -3, "used": 25_611_538, "total": -3, "relative": 0, "quota": -3},
    "groups": [],
    "language": "en",
    "locale": "",
}
_CAPABILITIES: dict[str, object] = {
    "version": {
        "major": 32,
        "minor": 0,
        "micro": 1,
        "string": "32.0.1",
        "edition": "",
        "extendedSupport": False,
    },
    "capabilities": {
        "core": {"pollinterval": 60, "webdav-root": "remote.php/webdav", "mod-rewrite-working": True},
        "dav": {"chunking": "1.0", "bulkupload": "1.0"},
        "files": {"bigfilechunking": True, "undelete": True, "versioning": True, "delete_from_trash": True},
        "notes": {"api_version": ["0.2", "1.3", "1.4"], "version": "5.0.2", "notes_path": "Notes"},
    },
}
