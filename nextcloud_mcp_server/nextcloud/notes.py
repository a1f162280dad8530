"""The Notes app (API 1.3 and 1.4)."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.etag import normalise, of, quote
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp, decoded
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.refusal import changed_since

# With /index.php/, which works whether or not the web server has pretty URLs.
_BASE = "/index.php/apps/notes/api/v1/notes"
_ATTACHMENTS = "/index.php/apps/notes/api/v1.4/attachment"
_NOT_MODIFIED = 304
_LIST_CHUNK = 2000
_READ_CHUNK = 500
_CHANGE_ATTEMPTS = 3
_MAX_TITLE_BYTES = 200
_MAX_ATTACHMENT_BYTES = 16_777_216
_NO_NOTE = (
    "There is no note with that id, or it belongs to someone else. Call nc_notes_list_notes to find it."
)
_READ_ONLY = "This note is shared read-only with the person, so it cannot be changed."
_SENTENCES = {404: _NO_NOTE}


class Note(Answer):
    """One note. `content` is None where it was not asked for; `path` is from the home folder on."""

    id: Id
    title: str
    etag: Annotated[str, AfterValidator(normalise)] = ""
    category: str = ""
    modified: int = 0
    favorite: bool = False
    readonly: bool = False
    path: str | None = Field(default=None, validation_alias="internalPath")
    error: bool = False
    error_type: str = Field(default="", validation_alias="errorType")
    content: str | None = None

    @property
    def text(self) -> str:
        """The content, where it must be there.

        Raises:
            Locked: Nextcloud put an error message in its place, because someone is writing.
            ServerFault: It did so for another reason.
        """
        if self.error and "LockedException" in self.error_type:
            raise errors.Locked(
                "The note is locked: someone is writing it right now. Wait some seconds, then retry."
            )
        if self.error or self.content is None:
            raise errors.ServerFault(
                "Nextcloud cannot read this note's file. Try later, or look at it in Nextcloud."
            )
        return self.content


class _BareId(Answer):
    id: Id


@dataclass(frozen=True, slots=True)
class NotePage:
    """Part of a list. `cursor` is None at the end; `pending` counts what is beyond this part."""

    notes: list[Note]
    cursor: str | None
    pending: int


@dataclass(frozen=True, slots=True)
class NoteList:
    """All notes, and the etag with which to ask whether they are still the same."""

    notes: list[Note]
    etag: str | None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that belongs to a note."""

    media_type: str
    data: bytes


_NOTE = TypeAdapter(Note)
# The last chunk of a list names every earlier note by its bare id.
_NOTES = TypeAdapter(list[Note | _BareId], config=ConfigDict(defer_build=True))


class NotesClient:
    """Reads and writes one person's notes."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    async def page(
        self, *, size: int, cursor: str | None = None, category: str | None = None, with_content: bool = False
    ) -> NotePage:
        """Fetch up to `size` notes; an empty category means those without one."""
        params: dict[str, str | int] = {"chunkSize": size}
        if not with_content:
            params["exclude"] = "content"
        if cursor is not None:
            params["chunkCursor"] = cursor
        if category is not None:
            params["category"] = category
        response = await self._http.request("GET", _BASE, params=params)
        notes = [note for note in decoded(response, _NOTES) if isinstance(note, Note)]
        pending = response.headers.get("X-Notes-Chunk-Pending", "0")
        return NotePage(
            notes=notes,
            cursor=response.headers.get("X-Notes-Chunk-Cursor"),
            pending=int(pending) if pending.isdecimal() else 0,
        )

    async def list_all(self) -> AsyncGenerator[Note]:
        """Fetch every note without its text: one request for each 2,000."""
        cursor = None
        while True:
            page = await self.page(size=_LIST_CHUNK, cursor=cursor)
            for note in page.notes:
                yield note
            cursor = page.cursor
            if cursor is None:
                return

    async def changed(self, etag: str | None) -> NoteList | None:
        """Fetch every note without its text in one request, if they are others than with this etag."""
        response = await self._http.request(
            "GET",
            _BASE,
            params={"exclude": "content"},
            headers=None if etag is None else {"If-None-Match": quote(etag)},
        )
        if response.status_code == _NOT_MODIFIED:
            return None
        notes = [note for note in decoded(response, _NOTES) if isinstance(note, Note)]
        return NoteList(notes, of(response.headers))

    async def read_all(self) -> AsyncGenerator[Note]:
        """Fetch every note with its text: one request for each 500, more where they are long."""
        size, cursor = _READ_CHUNK, None
        while True:
            try:
                page = await self.page(size=size, cursor=cursor, with_content=True)
            except errors.TooLarge:
                if size == 1:
                    raise
                size = max(1, size // 8)
                continue
            for note in page.notes:
                yield note
            cursor = page.cursor
            if cursor is None:
                return

    async def get(self, note_id: Id) -> Note:
        """Fetch one note.

        Raises:
            NotFound: No such note, or it belongs to someone else.
        """
        return decoded(await self._http.request("GET", f"{_BASE}/{note_id}", sentences=_SENTENCES), _NOTE)

    async def create(self, *, title: str, content: str, category: str, favorite: bool) -> Note:
        """Make a note; Nextcloud may store another title or category, so read the answer."""
        body = {"title": shortened(title), "content": content, "category": category, "favorite": favorite}
        return decoded(await self._http.request("POST", _BASE, json=body), _NOTE)

    async def update(
        self,
        note_id: Id,
        *,
        if_match: str | None,
        title: str | None = None,
        content: str | None = None,
        category: str | None = None,
        favorite: bool | None = None,
    ) -> Note:
        """Change the fields that are given; one request more where Nextcloud's refusal needs explaining.

        Raises:
            EtagMismatch: It was changed since; nothing was written.
            Forbidden: It is shared read-only.
        """
        given = {
            "title": None if title is None else shortened(title),
            "content": content,
            "category": category,
            "favorite": favorite,
        }
        try:
            response = await self._http.request(
                "PUT",
                f"{_BASE}/{note_id}",
                json={name: value for name, value in given.items() if value is not None},
                headers=None if if_match is None else {"If-Match": quote(if_match)},
                sentences={**_SENTENCES, 403: _READ_ONLY},
            )
        except errors.ServerFault:
            # A note on a federated read-only share answers 500 instead of 403.
            if (await self.get(note_id)).readonly:
                raise errors.Forbidden(_READ_ONLY) from None
            raise
        return decoded(response, _NOTE)

    async def change(
        self, note_id: Id, edit: Callable[[str], str], *, if_match: str | None
    ) -> tuple[Note, Note]:
        """Read a note, edit its text and write it back; answer it before and after. Two requests or more.

        Without `if_match` the edit is made anew on what someone else wrote in between.

        Raises:
            EtagMismatch: It is not what `if_match` names, or was changed again and again.
            Forbidden: It is shared read-only.
            Locked: Someone is writing it.
        """
        attempts = 1 if if_match is not None else _CHANGE_ATTEMPTS
        while True:
            attempts -= 1
            before = await self.get(note_id)
            text = before.text
            if before.readonly:
                raise errors.Forbidden(_READ_ONLY)
            if if_match is not None and normalise(if_match) != before.etag:
                raise errors.EtagMismatch(changed_since(before.etag), current_etag=before.etag)
            try:
                return before, await self.update(note_id, if_match=before.etag, content=edit(text))
            except errors.EtagMismatch:
                if not attempts:
                    raise

    async def delete(self, note_id: Id) -> None:
        """Move a note to the trash.

        Raises:
            NotFound: No such note, or it belongs to someone else.
        """
        await self._http.request("DELETE", f"{_BASE}/{note_id}", sentences={**_SENTENCES, 403: _READ_ONLY})

    async def attachment(self, note_id: Id, path: str) -> Attachment:
        """Fetch a file that a note shows, by the path its text holds.

        Raises:
            NotFound: The note has no such file.
        """
        response = await self._http.request(
            "GET",
            f"{_ATTACHMENTS}/{note_id}",
            params={"path": path},
            max_bytes=_MAX_ATTACHMENT_BYTES,
            sentences={
                400: "The Notes app of this Nextcloud is too old to hand out attachments.",
                404: "The note has no such attachment. Use the path exactly as the note's text has it.",
            },
        )
        media_type = (
            response.headers.get("Content-Type", "application/octet-stream").partition(";")[0].strip()
        )
        return Attachment(media_type=media_type, data=response.content)


def shortened(title: str) -> str:
    """Cut a title to what file systems hold, at a character's boundary.

    Nextcloud counts characters; 100 Chinese ones are 300 bytes, and renaming to that fails with 500.
    """
    return title.encode()[:_MAX_TITLE_BYTES].decode(errors="ignore").rstrip()
