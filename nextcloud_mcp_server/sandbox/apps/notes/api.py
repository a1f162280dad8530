"""The Notes API, versions 1.3 and 1.4."""

import json
import re
import secrets
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nextcloud_mcp_server.sandbox.apps.notes.store import Changes, ListQuery, NoteMissing, NoteStore
from nextcloud_mcp_server.sandbox.context import Context
from nextcloud_mcp_server.sandbox.files import FileFault, FileLocked, FileMissing, NotWritable, QuotaExceeded
from nextcloud_mcp_server.sandbox.handlers import Handlers
from nextcloud_mcp_server.sandbox.identity import Gate, Refusal, refuse_json
from nextcloud_mcp_server.sandbox.reply import HTML_TYPE, NO_CACHE, empty_html, internal_error, json_reply
from nextcloud_mcp_server.sandbox.state import User

_VERSIONS = "v0.2|v1|v1.3|v1.4"
NOTES_API_VERSIONS = ("0.2", "1.3", "1.4")
_VERSION_HEADER = {"X-Notes-API-Versions": ", ".join(NOTES_API_VERSIONS)}
_EVERY_METHOD = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_MODES = frozenset({"edit", "preview", "rich"})
_FALSE_TEXTS = frozenset({"", "0", "false", "False", "FALSE"})

# What the app raises → the status and the class it names.
_FAULTS: dict[type[Exception], tuple[int, str]] = {
    NoteMissing: (404, "OCA\\Notes\\Service\\NoteDoesNotExistException"),
    NotWritable: (403, "OCA\\Notes\\Service\\NoteNotWritableException"),
    FileLocked: (423, "OCP\\Lock\\LockedException"),
    QuotaExceeded: (507, "OCA\\Notes\\Service\\InsufficientStorageException"),
    FileMissing: (404, "OCP\\Files\\NotFoundException"),
}


class WrongType(Exception):
    """A field has a type that PHP refuses; Nextcloud answers with an error page."""


class NotesApi:
    """Answers below /apps/notes/api."""

    def __init__(self, context: Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate
        self._handlers = Handlers[Callable[..., Awaitable[Response]]](
            (
                ("GET", rf"(?:{_VERSIONS})/notes", self._list),
                ("POST", rf"(?:{_VERSIONS})/notes", self._create),
                ("GET", rf"(?:{_VERSIONS})/notes/(\d+)", self._get),
                ("PUT", rf"(?:{_VERSIONS})/notes/(\d+)", self._update),
                ("DELETE", rf"(?:{_VERSIONS})/notes/(\d+)", self._delete),
                ("GET", rf"(?:{_VERSIONS})/settings", self._settings),
                ("PUT", rf"(?:{_VERSIONS})/settings", self._change_settings),
                ("GET", r"v1\.4/attachment/(\d+)", self._read_attachment),
                ("POST", r"v1\.4/attachment/(\d+)", self._add_attachment),
                ("GET", r".*", self._unknown),
            )
        )

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/apps/notes/api/{path:path}", self._answer, methods=_EVERY_METHOD)]

    async def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return _preflight(request)
        entry = self._handlers.find(request)
        if entry is None:
            return empty_html(405)
        handler, match = entry
        found = self._gate.identify(request, "notes")
        if isinstance(found, Refusal):
            return refuse_json(found)
        store = NoteStore(found.user, self._context.clock)
        try:
            numbers = [int(group) for group in match.groups()]
            response = await handler(request, found.user, store, *numbers)
        except WrongType:
            return internal_error()
        except (NoteMissing, FileFault) as fault:
            status, name = _FAULTS.get(type(fault), (500, "OCP\\Files\\InvalidPathException"))
            error = {"errorType": self._error_type(name)}
            response = json_reply(error, status=status, headers=_VERSION_HEADER)
        response.headers["X-User-Id"] = found.user.uid
        return response

    def _error_type(self, name: str) -> str:
        return "Exception" if self._context.profile.newer_notes else name

    async def _unknown(self, request: Request, user: User, store: NoteStore) -> Response:
        del request, user, store
        return _reply([], status=400)

    async def _list(self, request: Request, user: User, store: NoteStore) -> Response:
        del user
        query = request.query_params
        listing = store.list(
            ListQuery(
                category=query.get("category"),
                exclude=frozenset(query.get("exclude", "").split(",")),
                prune_before=_php_int(query.get("pruneBefore", "0")),
                chunk_size=_php_int(query.get("chunkSize", "0")),
                cursor=query.get("chunkCursor", ""),
            )
        )
        headers = {"Last-Modified": formatdate(listing.listed_at, usegmt=True), "ETag": f'"{listing.etag}"'}
        if listing.cursor is not None:
            headers |= {"X-Notes-Chunk-Cursor": listing.cursor, "X-Notes-Chunk-Pending": str(listing.pending)}
        return _conditional(request, listing.notes, headers)

    async def _get(self, request: Request, user: User, store: NoteStore, note_id: int) -> Response:
        del user
        node = store.find(note_id)
        note = store.describe(node, frozenset(request.query_params.get("exclude", "").split(",")))
        return _conditional(request, note, {"ETag": f'"{note["etag"]}"'})

    async def _create(self, request: Request, user: User, store: NoteStore) -> Response:
        del user
        fields = await _fields(request)
        if any(name in fields and fields[name] is None for name in ("title", "category", "content")):
            raise WrongType
        return _reply(store.describe(store.create(_changes(fields))))

    async def _update(self, request: Request, user: User, store: NoteStore, note_id: int) -> Response:
        del user
        changes = _changes(await _fields(request))
        node = store.find(note_id)
        expected = request.headers.get("If-Match")
        # Compared as text: neither an unquoted etag nor * ever matches.
        if expected and expected != f'"{store.etag(node)}"':
            return _reply(store.describe(node), status=412)
        if changes != Changes():
            store.update(node, changes)
        return _reply(store.describe(node))

    async def _delete(self, request: Request, user: User, store: NoteStore, note_id: int) -> Response:
        del request, user
        store.delete(store.find(note_id))
        return _reply([])

    async def _settings(self, request: Request, user: User, store: NoteStore) -> Response:
        del request, store
        return _reply(_settings_of(user))

    async def _change_settings(self, request: Request, user: User, store: NoteStore) -> Response:
        del store
        fields = await _fields(request)
        if "notesPath" in fields:
            parts = [part for part in str(fields["notesPath"]).split("/") if part not in {"", ".", ".."}]
            user.notes_path = "/".join(parts) or "Notes"
        if "fileSuffix" in fields:
            suffix = re.sub(r"[^A-Za-z0-9.-]", "", str(fields["fileSuffix"])).strip(".")
            user.notes_suffix = f".{suffix}" if suffix else ".md"
        if "noteMode" in fields:
            mode = str(fields["noteMode"])
            user.notes_mode = mode if mode in _MODES else "rich"
        return _reply(_settings_of(user))

    async def _read_attachment(
        self, request: Request, user: User, store: NoteStore, note_id: int
    ) -> Response:
        folder = store.find(note_id).parent
        path = request.query_params.get("path", "")
        node = None if folder is None else user.files.find(f"{folder.path}/{path}")
        if node is None or node.is_folder or ".." in path.split("/"):
            error = {"errorType": self._error_type("OCP\\Files\\NotFoundException")}
            return json_reply(error, status=404)
        headers = {
            "Content-Disposition": f'attachment; filename="{node.name}"',
            "Cache-Control": "private, max-age=3600, must-revalidate",
            "Vary": "Authorization, Cookie",
        }
        return Response(node.read(), media_type=node.mime, headers=headers)

    async def _add_attachment(self, request: Request, user: User, store: NoteStore, note_id: int) -> Response:
        folder = store.find(note_id).parent
        async with request.form() as form:
            file = form.get("file")
            if folder is None or not isinstance(file, UploadFile):
                return _reply({"errorType": self._error_type("TypeError")}, status=500)
            # What stands between the first two dots becomes the suffix, as in the app.
            suffix = (file.filename or "").split(".")[1:2]
            name = f"{secrets.token_hex(16)}.{''.join(suffix)}"
            user.files.put(f"{folder.path}/{name}", await file.read())
        return _reply({"filename": name})


def _reply(value: object, *, status: int = 200) -> Response:
    return json_reply(value, status=status, headers=_VERSION_HEADER)


def _conditional(request: Request, value: object, headers: dict[str, str]) -> Response:
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return Response(status_code=304, headers={**NO_CACHE, **headers, **_VERSION_HEADER})
    return json_reply(value, headers={**headers, **_VERSION_HEADER})


def _preflight(request: Request) -> Response:
    return Response(
        b"",
        headers={
            **NO_CACHE,
            "Content-Type": HTML_TYPE,
            "Access-Control-Allow-Origin": request.headers.get("Origin", "*"),
            "Access-Control-Allow-Methods": "PUT, POST, GET, DELETE, PATCH",
            "Access-Control-Max-Age": "1728000",
            "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept",
            "Access-Control-Allow-Credentials": "false",
        },
    )


def _settings_of(user: User) -> dict[str, str]:
    settings = {"notesPath": user.notes_path, "fileSuffix": user.notes_suffix, "noteMode": user.notes_mode}
    defaults = {"notesPath": "Notes", "fileSuffix": ".md", "noteMode": "rich"}
    # Only what differs from the defaults is stored, and what is stored comes first.
    return dict(sorted(settings.items(), key=lambda item: item[1] == defaults[item[0]]))


async def _fields(request: Request) -> dict[str, object]:
    """Read the body as PHP does: an unreadable one counts as empty."""
    body = await request.body()
    if "json" not in request.headers.get("Content-Type", ""):
        return dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
    try:
        fields = json.loads(body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}  # pyright: ignore[reportUnknownVariableType] - any JSON


def _changes(fields: dict[str, object]) -> Changes:
    modified = fields.get("modified")
    favorite = fields.get("favorite")
    return Changes(
        title=_text(fields, "title"),
        category=_text(fields, "category"),
        content=_text(fields, "content"),
        modified_at=None if modified is None else _php_int(modified),
        favorite=None if favorite is None else str(favorite) not in _FALSE_TEXTS,
    )


def _text(fields: dict[str, object], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise WrongType
    return value


def _php_int(value: object) -> int:
    """Cast as PHP does: a text that does not start with digits is 0."""
    match = re.match(r"\s*[+-]?\d+", str(int(value) if isinstance(value, bool) else value))
    return int(match[0]) if match else 0
