"""Results of the note tools."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from nextcloud_mcp_server.apps.notes.client import Attachment
from nextcloud_mcp_server.apps.notes.models import Note
from nextcloud_mcp_server.apps.notes.texts import SearchedNote
from nextcloud_mcp_server.formats import timestamp
from nextcloud_mcp_server.nextcloud import outcome
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.outcome import NEW, Part
from nextcloud_mcp_server.nextcloud.ranking import unfolded_place
from nextcloud_mcp_server.tools.result import Document, ImageResult, LongText, Result
from nextcloud_mcp_server.tools.text_page import TextPage, snippet

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_IMAGE_BYTES = 700_000
#: The names of the tools' arguments where a field has another name.
_NAMES: Final = {"content": "text"}


class NoteInfo(Result):
    """What is known of a note without its text. `unreadable` says that Nextcloud cannot open it now."""

    id: Id
    title: str
    category: str
    modified_at: datetime
    favorite: bool
    etag: str
    readonly: bool | None = None
    unreadable: bool | None = None


class NoteList(Result):
    """A page of notes. `remaining` counts the notes that were not looked at yet."""

    notes: list[NoteInfo]
    cursor: str | None = None
    remaining: int | None = None


class NoteHit(NoteInfo):
    """A note that was found, with the place."""

    snippet: LongText


class NoteHits(Result):
    """The best hits first; `not_found` are words that no note has, `searched` says where not all were looked at."""

    notes: list[NoteHit]
    total: int
    not_found: list[str] | None = None
    searched: int | None = None


class NoteText(Document):
    """A note with its text, or a page of it; sizes and offsets are bytes."""

    id: Id
    title: str
    category: str
    modified_at: datetime
    favorite: bool
    etag: str
    size: int
    readonly: bool | None = None
    path: str | None = None
    offset: int | None = None
    truncated: bool | None = None
    next_offset: int | None = None


class NoteWritten(Result):
    """What Nextcloud stored; `changed` says where it differs from what was asked for."""

    id: Id
    title: str
    category: str
    etag: str
    size: int
    modified_at: datetime
    favorite: bool
    changed: str | None = None


class NoteDeleted(Result):
    """What happened, and how to undo it."""

    id: Id
    undo: str


class NoteImage(ImageResult):
    """A picture of a note."""

    path: str
    size: int


class NoteFile(Result):
    """A file of a note that cannot be shown here."""

    path: str
    mime_type: str
    size: int
    hint: str


def info(note: Note) -> NoteInfo:
    """Return a note without its text."""
    return NoteInfo(
        id=note.id,
        title=note.title,
        category=note.category,
        modified_at=_moment(note),
        favorite=note.favorite,
        etag=note.etag,
        readonly=note.readonly or None,
        unreadable=note.error or None,
    )


def hits(found: Iterable[tuple[SearchedNote, int | None]]) -> list[NoteHit]:
    """Return the notes that were found."""
    return [hit(note, at) for note, at in found]


def hit(found: SearchedNote, at: int | None) -> NoteHit:
    """Return a note that was found, with a snippet at a position of its folded text."""
    text = "" if found.note.error else found.note.content or ""
    return NoteHit(
        **info(found.note).model_dump(),
        snippet=snippet(text, None if at is None else unfolded_place(text, at)),
    )


def text(note: Note, page: TextPage, *, offset: int) -> NoteText:
    """Return a note with its text, or a page of it."""
    partial = bool(offset) or page.next_offset is not None
    return NoteText(
        **info(note).model_dump(exclude={"unreadable"}),
        path=note.path,
        size=page.size,
        offset=offset if partial else None,
        truncated=True if page.next_offset is not None else None,
        next_offset=page.next_offset,
        content=page.text,
    )


def written(
    note: Note, sent: Mapping[str, object], *, before: Note | None = None, stayed: str | None = None
) -> NoteWritten:
    """Return what Nextcloud stored, where that differs from what was sent, and which files stayed behind.

    `sent` has the fields of the note that were sent, None for the others.

    Raises:
      ServerFault: Nothing was stored.
    """
    parts = [
        Part(_NAMES.get(name, name), value, getattr(note, name), _before(name, value, before))
        for name, value in sent.items()
        # A response may have an error message in place of the text.
        if value is not None and not (name == "content" and (note.error or note.content is None))
    ]
    changed = outcome.compare("Notes", parts)
    return NoteWritten(
        id=note.id,
        title=note.title,
        category=note.category,
        etag=note.etag,
        size=len((note.content or "").encode()),
        modified_at=_moment(note),
        favorite=note.favorite,
        changed=" ".join(said for said in (changed, stayed) if said) or None,
    )


def _before(name: str, value: object, before: Note | None) -> object:
    """Return a field's value before the change; without a note, a bool is the opposite of `value`."""
    if before is not None:
        return getattr(before, name)
    return not value if isinstance(value, bool) else NEW


def deleted(note_id: Id) -> NoteDeleted:
    """Return the result for a deleted note, with the way to restore it."""
    return NoteDeleted(
        id=note_id,
        undo="It is in the trash: nc_files_list_trash finds it, nc_files_restore_trash brings it back.",
    )


def attached(path: str, attachment: Attachment) -> NoteImage | NoteFile:
    """Return an image; facts for any other file, and for an image that is too large."""
    size, kind = len(attachment.data), attachment.media_type
    if kind in _IMAGES and size <= _MAX_IMAGE_BYTES:
        return NoteImage(path=path, size=size, mime_type=kind, data=attachment.data)
    return NoteFile(
        path=path,
        size=size,
        mime_type=kind,
        hint="Not shown here. Read it with nc_files_read_file; it lies beside the note, whose path "
        "nc_notes_get_note answers.",
    )


def _moment(note: Note) -> datetime:
    return timestamp.moment(note.modified)
