"""The Notes app (API 1.3 and 1.4)."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final, Self

import httpx2
from pydantic import ConfigDict, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.notes.models import Note, shortened
from nextcloud_mcp_server.apps.notes.texts import KeptNotes, SearchedNote
from nextcloud_mcp_server.formats import passage, untrusted
from nextcloud_mcp_server.nextcloud import memory_permit, sign_in_page
from nextcloud_mcp_server.nextcloud.app_client import AppClient, Connection
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.content_cache import CachedContent
from nextcloud_mcp_server.nextcloud.decoding import decoded_aside
from nextcloud_mcp_server.nextcloud.error_mapping import CHANGED
from nextcloud_mcp_server.nextcloud.etag import normalise, of, quote, required
from nextcloud_mcp_server.nextcloud.held_bytes import HeldBytes
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.ids import Id

# `/index.php/` works with and without pretty URLs.
_BASE = "/index.php/apps/notes/api/v1/notes"
_ATTACHMENTS = "/index.php/apps/notes/api/v1.4/attachment"
_NOT_MODIFIED = 304
_LIST_CHUNK = 2000
_READ_CHUNK = 500
_CHANGE_ATTEMPTS = 6
#: How many attempts a persistent lock uses up.
_LOCK_ATTEMPTS = 2
#: The maximum number of notes that a search reads; the result says if there are more.
MOST_SEARCHED: Final = 5000
#: The clocks of several servers behind one address may differ by this.
_CLOCK_SECONDS: Final = 2
_MAX_ATTACHMENT_BYTES = 16_777_216
#: Of one note as JSON. A text with emoji takes four times that in memory.
_MAX_NOTE_BYTES = 12_582_912
_NO_NOTE = (
    "There is no note with that id, or it belongs to another user. Call nc_notes_list_notes to find it."
)
_LONG_NOTE = "This note is too long to read here. It is a file, too: nc_files_read_file reads it in parts."
_READ_ONLY = "This note is shared read-only with the person, so it cannot be changed."
_SENTENCES = {404: _NO_NOTE}


class _BareId(Answer):
    # An element with further fields is a note; a malformed note must raise, not be left out.
    model_config = ConfigDict(extra="forbid")

    id: Id


@dataclass(frozen=True, slots=True)
class NotePage:
    """Part of a list. `cursor` is None at the end; `pending` counts the notes after this part."""

    notes: list[Note]
    cursor: str | None
    pending: int
    listed_at: int | None = None
    has_texts: bool = False


@dataclass(frozen=True, slots=True)
class NoteList:
    """All notes, and the etag for the next conditional request."""

    notes: list[Note]
    etag: str | None


@dataclass(frozen=True, slots=True)
class Texts:
    """Notes with their texts; `complete` tells whether these are all."""

    notes: list[SearchedNote]
    complete: bool


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that a note contains."""

    media_type: str
    data: bytes


_NOTE = TypeAdapter(Note)
# The last chunk of a list has every earlier note as a bare id.
_NOTES = TypeAdapter(list[Note | _BareId], config=ConfigDict(defer_build=True))


class NotesClient(AppClient):
    """Reads and writes one user's notes."""

    def __init__(self, http: NextcloudHttp, texts: CachedContent[KeptNotes] | None = None) -> None:
        super().__init__(http)
        self._texts = texts

    @classmethod
    def from_connection(cls, connection: Connection) -> Self:
        """Build the client."""
        return cls(connection.http, connection.content("notes"))

    async def page(self, *, size: int, cursor: str | None = None, with_content: bool = False) -> NotePage:
        """Fetch up to `size` notes.

        Raises:
          ServerFault: The cursor of the next part is the same, so the list would never end.
        """
        found = await self._page(size=size, cursor=cursor, with_content=with_content)
        return replace(found, notes=_visible(found.notes))

    async def _page(self, *, size: int, cursor: str | None, with_content: bool) -> NotePage:
        params: dict[str, str | int] = {"chunkSize": size}
        if not with_content:
            params["exclude"] = "content"
        if cursor is not None:
            params["chunkCursor"] = cursor
        response = await self._http.request("GET", _BASE, params=params)
        pending = response.headers.get("X-Notes-Chunk-Pending", "0")
        following = response.headers.get("X-Notes-Chunk-Cursor")
        if following is not None and following == cursor:
            raise errors.ServerFault(
                "Nextcloud's list of notes does not go on, so it was left. Try again later."
            )
        return NotePage(
            notes=_notes(await decoded_aside(response, _NOTES, uid=self._http.uid)),
            cursor=following,
            pending=untrusted.integer(pending) or 0,
            listed_at=_listed_at(response),
            has_texts=with_content,
        )

    async def list_all(self) -> AsyncGenerator[Note]:
        """Fetch every note without its text: one request per 2,000."""
        cursor = None
        while True:
            page = await self.page(size=_LIST_CHUNK, cursor=cursor)
            for note in page.notes:
                yield note
            cursor = page.cursor
            if cursor is None:
                return

    async def changed(self, etag: str | None) -> NoteList | None:
        """Fetch every note without its text in one request, or None if `etag` is still current."""
        response = await self._http.request(
            "GET",
            _BASE,
            params={"exclude": "content"},
            headers=None if etag is None else {"If-None-Match": quote(etag)},
        )
        if response.status_code == _NOT_MODIFIED:
            return None
        return NoteList(
            _visible(_notes(await decoded_aside(response, _NOTES, uid=self._http.uid))), of(response.headers)
        )

    async def texts(self) -> Texts:
        """Fetch notes with texts, for a search: all on the first call (`_read_pages`), changed ones later."""
        await memory_permit.take(self._http.uid)
        kept = None if self._texts is None else self._texts.take()
        kept = None if kept is None else await self._renewed(kept)
        if kept is None:
            return await self._read_texts()
        if self._texts is not None:
            self._texts.keep(kept)
        return Texts(_without_internal(kept), complete=True)

    async def _read_texts(self) -> Texts:
        notes: list[SearchedNote] = []
        listed_at = None
        complete = True
        seen = 0
        with HeldBytes(self._http.uid) as held:
            async for page in self._read_pages():
                # Later chunks repeat the time of the first request; notes changed meanwhile are returned again.
                listed_at = listed_at or page.listed_at
                found = await _prepared(page.notes[: MOST_SEARCHED - seen], self._http.uid)
                fitting = [one for one in found if held.take(one.size)]
                notes += fitting
                seen += len(found)
                complete = complete and page.has_texts and len(fitting) == len(page.notes)
                if seen == MOST_SEARCHED:
                    complete = complete and page.cursor is None
                    break
        kept = KeptNotes.of(notes, listed_at or 0)
        if self._texts is not None:
            self._texts.keep(kept if listed_at is not None and complete else None)
        return Texts(_without_internal(kept), complete=complete)

    async def _renewed(self, kept: KeptNotes) -> KeptNotes | None:
        """Fetch in one request what has changed; None where everything must be read again.

        The app's own clients do the same: unchanged notes are returned as bare ids (`pruneBefore`, docs/api/v1.md),
        all others completely, and deleted ones not at all.
        """
        asked = {"pruneBefore": kept.listed_at - _CLOCK_SECONDS}
        try:
            response = await self._http.request("GET", _BASE, params=asked)
        except errors.TooLarge:
            return None
        listed_at = _listed_at(response)
        if listed_at is None or listed_at < kept.listed_at:
            # Nextcloud's clock was set back, so recent changes look older than they are.
            return None
        listed = await decoded_aside(response, _NOTES, uid=self._http.uid)
        new = {one.note.id: one for one in await _prepared(_notes(listed), self._http.uid)}
        notes: list[SearchedNote] = []
        for one in listed:
            found = new.get(one.id) or kept.notes.get(one.id)
            if found is None or (found.note.error and one.id not in new):
                return None
            notes.append(found)
        renewed = KeptNotes.of(notes, listed_at)
        with HeldBytes(self._http.uid) as held:
            return renewed if held.take(renewed.size) else None

    async def _read_pages(self) -> AsyncGenerator[NotePage]:
        """Fetch every note with its text, 500 a request, fewer where they are long; too long ones without it."""
        size, cursor = _READ_CHUNK, None
        while True:
            try:
                page = await self._page(size=size, cursor=cursor, with_content=True)
            except errors.TooLarge:
                if size > 1:
                    size = max(1, size // 8)
                    continue
                page = await self._page(size=1, cursor=cursor, with_content=False)
                size = _READ_CHUNK
            # The reader counts what it keeps.
            memory_permit.dropped()
            yield page
            cursor = page.cursor
            if cursor is None:
                return

    async def get(self, note_id: Id) -> Note:
        """Fetch one note, with its text.

        Raises:
          NotFound: No such note, or it belongs to another user.
          TooLarge: It is longer than any note that a user wrote.
        """
        path = f"{_BASE}/{note_id}"
        try:
            response = await self._http.request("GET", path, sentences=_SENTENCES, max_bytes=_MAX_NOTE_BYTES)
        except errors.TooLarge:
            raise errors.TooLarge(_LONG_NOTE) from None
        return await decoded_aside(response, _NOTE, uid=self._http.uid)

    async def create(self, *, title: str, content: str, category: str, favorite: bool) -> Note:
        """Create a note; Nextcloud may store another title or category, so use the result."""
        body = {"title": shortened(title), "content": content, "category": category, "favorite": favorite}
        response = await self._http.request("POST", _BASE, json=body)
        return await decoded_aside(response, _NOTE, uid=self._http.uid)

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
        """Set the given fields; sends a second request where an error needs a reason.

        Raises:
          EtagMismatch: It was changed since it was read; nothing was written.
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
            # For a note on a federated read-only share Nextcloud answers 500 instead of 403.
            if (await self.get(note_id)).readonly:
                raise errors.Forbidden(_READ_ONLY) from None
            raise
        return await decoded_aside(response, _NOTE, uid=self._http.uid)

    async def change(
        self, note_id: Id, edit: Callable[[str], str], *, if_match: str | None
    ) -> tuple[Note, str, Note]:
        """Fetch a note, edit its text and write it. Two or more requests.

        Return the note before, the text that was sent, and the note after.

        Without `if_match` the edit is repeated on the new text when another user changed or is changing the note.

        Raises:
          EtagMismatch: Its etag is not `if_match`, or it was changed again and again.
          Forbidden: It is shared read-only.
          Locked: Another writer has locked it.
          ServerFault: Nextcloud sent no etag.
        """
        await memory_permit.take(self._http.uid)
        attempts = 1 if if_match is not None else _CHANGE_ATTEMPTS
        while True:
            attempts -= 1
            before = await self.get(note_id)
            text = before.text
            passage.refuse_long(text)
            if before.readonly:
                raise errors.Forbidden(_READ_ONLY)
            current = required(before.etag)
            if if_match is not None and normalise(if_match) != current:
                raise errors.EtagMismatch(CHANGED, current_etag=current)
            new = await aside(partial(edit, text), uid=self._http.uid, size=len(text))
            try:
                return before, new, await self.update(note_id, if_match=current, content=new)
            except errors.EtagMismatch:
                if not attempts:
                    raise
                # Both texts are read again.
                memory_permit.dropped()
            except errors.Locked:
                # Nothing was written after seconds of attempts; the writer that holds the lock may produce the next
                # text to edit.
                attempts -= _LOCK_ATTEMPTS
                if attempts <= 0:
                    raise

    async def delete(self, note_id: Id) -> None:
        """Move a note to the trash.

        Raises:
          NotFound: No such note, or it belongs to another user.
        """
        await self._http.request("DELETE", f"{_BASE}/{note_id}", sentences={**_SENTENCES, 403: _READ_ONLY})

    async def attachment(self, note_id: Id, path: str) -> Attachment:
        """Fetch a file that a note contains, by the path in its text.

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
        # Notes returns HTML attachments as plain text, so this page is not from Notes (`getSecureMimeType`).
        if sign_in_page.is_possible(response):
            raise sign_in_page.not_content(path)
        media_type = (
            response.headers.get("Content-Type", "application/octet-stream").partition(";")[0].strip()
        )
        return Attachment(media_type=media_type, data=response.content)


def _notes(listed: list[Note | _BareId]) -> list[Note]:
    return [one for one in listed if isinstance(one, Note)]


async def _prepared(notes: list[Note], uid: str) -> list[SearchedNote]:
    """Prepare the notes of a user for search."""
    size = sum(len(one.title) + len(one.content or "") for one in notes)
    return await aside(lambda: [SearchedNote.of(one) for one in notes], uid=uid, size=size)


def _visible(notes: list[Note]) -> list[Note]:
    """Leave out notes in folders that apps use internally."""
    return [one for one in notes if not one.is_internal]


def _without_internal(kept: KeptNotes) -> list[SearchedNote]:
    return [one for one in kept.notes.values() if not one.note.is_internal]


def _listed_at(response: httpx2.Response) -> int | None:
    """Return when a list, or its first chunk, was requested, by Nextcloud's clock."""
    try:
        return int(parsedate_to_datetime(response.headers["Last-Modified"]).timestamp())
    except (KeyError, ValueError, OverflowError):
        return None
