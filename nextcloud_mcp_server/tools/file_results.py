"""Results of the file tools."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from nextcloud_mcp_server.nextcloud.byte_range import Chunk
from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.files import Written
from nextcloud_mcp_server.nextcloud.sanitize import is_plain, named
from nextcloud_mcp_server.nextcloud.trash import TrashEntry
from nextcloud_mcp_server.nextcloud.version import Version
from nextcloud_mcp_server.tools.result import Document, ImageResult, Result

NO_ETAG = "The storage gives no etag: only size and time are compared before this is overwritten."


#: The size of a row without its texts: field names, a size of twenty digits, a time with its offset.
_ROW_BYTES = 160
#: The maximum size of a character: of visible ASCII with a backslash before it, or `<U+0041>` with its `<` escaped, and
#: of any other as `<U+E0041>`.
_PLAIN, _ESCAPED = 2, 9


def shown_as(name: str) -> str | None:
    """Return an escaped name with spaces at an end, tabs or line ends; None for other names.

    Hidden characters are escaped in the name itself, as in each text of a result.
    """
    spaced = named(name)
    return None if spaced == name else spaced


def kind(entry: Entry) -> str:
    """Return `folder`, or the media type of a file."""
    return "folder" if entry.is_folder else entry.content_type or "application/octet-stream"


@dataclass(slots=True)
class Row:
    """One item of a list. `shown_as` warns of hidden characters, and of spaces around the name.

    `encrypted`: end-to-end encrypted, so only the owner's own apps can look inside.
    """

    # A plain class with positional arguments: a page has hundreds of rows, and `frozen`, a model, or keyword
    # arguments would each make creating one two to three times as slow.
    name: str | None
    path: str | None
    type: str
    size: int | None = None
    modified: datetime | None = None
    favorite: Literal[True] | None = None
    shown_as: str | None = None
    encrypted: Literal[True] | None = None

    @property
    def most_bytes(self) -> int:
        """Return the maximum size as JSON: names, numbers, and the texts."""
        texts = f"{self.name or self.path or ''}{self.type}{self.shown_as or ''}"
        return _ROW_BYTES + (_PLAIN if is_plain(texts) else _ESCAPED) * len(texts)

    @classmethod
    def of(cls, entry: Entry, *, in_folder: bool) -> "Row":
        """Build the row of an entry: a child of the listed folder by its name, any other by its path."""
        name, path = (entry.name, None) if in_folder else (None, entry.path)
        return cls(
            name,
            path,
            kind(entry),
            entry.size,
            entry.modified_at,
            True if entry.favourite else None,
            shown_as(name or path or ""),
            True if entry.encrypted else None,
        )


class FolderPage(Result):
    """A page of a folder; go on with `cursor`."""

    path: str
    items: list[Row]
    total: int
    cursor: str | None = None


class FoundPage(Result):
    """A page of what was found, newest first; go on with `cursor`."""

    items: list[Row]
    cursor: str | None = None
    note: str | None = None


class Quota(Result):
    """Room, in bytes; `available` is absent where there is no limit or it is not known."""

    used: int | None = None
    available: int | None = None
    unlimited: Literal[True] | None = None


class ItemInfo(Result):
    """All that is known of a file or folder."""

    path: str
    type: str
    size: int | None = None
    modified: datetime | None = None
    etag: str
    permissions: list[str]
    owner: str | None = None
    shared_with_me: Literal[True] | None = None
    shared_by: list[str] | None = None
    shared_with: list[str] | None = None
    tags: list[str] | None = None
    favorite: bool
    encrypted: Literal[True] | None = None
    folders_inside: int | None = None
    files_inside: int | None = None
    quota: Quota | None = None
    shown_as: str | None = None
    note: str | None = None


class FileText(Document):
    """A file's text, or a page of it; sizes and offsets are bytes, those of `text_size` if it is there.

    `encoding` is that of the file, and editing keeps it; text out of a document has none.
    """

    path: str
    type: str
    encoding: str | None = None
    size: int | None = None
    text_size: int | None = None
    modified: datetime | None = None
    etag: str
    offset: int
    truncated: bool
    next_offset: int | None = None
    shown_as: str | None = None
    note: str | None = None


class FileImage(ImageResult):
    """A picture that is small enough to be shown, or a smaller one made of it."""

    path: str
    size: int | None
    modified: datetime | None = None
    etag: str
    shown_as: str | None = None
    note: str | None = None


class FileFacts(Result):
    """A file that cannot be shown as text or picture."""

    path: str
    type: str
    size: int | None = None
    modified: datetime | None = None
    etag: str
    shown_as: str | None = None
    note: str

    @classmethod
    def of(cls, chunk: Chunk, note: str) -> "FileFacts":
        """Build from a chunk, with the reason why there is no content."""
        return cls.about(chunk.path, chunk.content_type, chunk.version, note, size=chunk.total)

    @classmethod
    def about(
        cls, path: str, content_type: str, version: Version, note: str, *, size: int | None
    ) -> "FileFacts":
        """Build from known facts, with the reason why there is no content."""
        return cls(
            path=path,
            type=content_type or "application/octet-stream",
            size=size,
            modified=version.modified_at,
            etag=str(version),
            shown_as=shown_as(path),
            note=note,
        )


class Changed(Result):
    """What a change left behind; pass `etag` on to change it again."""

    path: str
    type: str | None = None
    etag: str | None = None
    size: int | None = None
    created: bool | None = None
    replaced: int | None = None
    note: str | None = None

    @classmethod
    def by_writing(cls, written: Written, *, replaced: int | None = None) -> "Changed":
        """Build from a written file."""
        return cls(
            path=written.path,
            etag=str(written.version),
            size=written.version.size,
            created=None if replaced else written.created,
            replaced=replaced,
            note=None if written.version.etag else NO_ETAG,
        )

    @classmethod
    def by_transfer(cls, path: str, entry: Entry | None) -> "Changed":
        """Build from a moved or copied file; without an entry the result could not be fetched."""
        if entry is None:
            return cls(path=path, note="It is done, but could not be looked at: see nc_files_get_info.")
        return cls(path=path, type=kind(entry), etag=str(entry.version), size=entry.size)


class NotMoved(Result):
    """One of several that stayed where it was, or of which that is not known, and why."""

    path: str
    reason: str


class Moved(Result):
    """What became of several things that were to go into one folder: each is in one of the three lists."""

    folder: str
    moved: list[str]
    failed: list[NotMoved] | None = None
    not_tried: list[str] | None = None
    note: str | None = None


class Deleted(Result):
    """What was deleted, and how to undo it."""

    path: str
    trash_id: str | None = None
    undo: str


class TrashRow(Result):
    """Something in the trash; `path` is where it was."""

    trash_id: str
    path: str
    type: Literal["file", "folder"]
    size: int | None = None
    deleted: datetime
    shown_as: str | None = None

    @classmethod
    def of(cls, entry: TrashEntry) -> "TrashRow":
        """Build from a trash entry."""
        return cls(
            trash_id=entry.trash_id,
            path=entry.original_path,
            type="folder" if entry.is_folder else "file",
            size=entry.size,
            deleted=entry.deleted_at,
            shown_as=shown_as(entry.original_path),
        )


class TrashPage(Result):
    """A page of the trash, last deleted first; go on with `cursor`."""

    items: list[TrashRow]
    total: int
    cursor: str | None = None


class Restored(Result):
    """What was put back."""

    path: str
    note: str | None = None
