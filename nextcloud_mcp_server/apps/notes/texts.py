"""The texts of a user's notes, cached between two searches (see `content_cache`)."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nextcloud_mcp_server.apps.notes.models import Note
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.ranking import Document, fold


@dataclass(frozen=True, slots=True)
class SearchedNote:
    """A note with its text; title and text also in the form in which they are compared."""

    note: Note
    folded: Document

    @classmethod
    def of(cls, note: Note) -> "SearchedNote":
        """Prepare a note for search; an error message that Nextcloud returns as content counts as no text."""
        text = "" if note.error else note.content or ""
        return cls(note, Document(fold(note.title), fold(text)))

    @property
    def size(self) -> int:
        """Return the approximate size in memory, in bytes."""
        texts = (self.note.content or "", self.folded.body, self.note.title, self.folded.title)
        return sum(map(sys.getsizeof, texts)) + 1000


@dataclass(frozen=True, slots=True)
class KeptNotes:
    """One user's notes at `listed_at`, in seconds of Nextcloud's clock."""

    notes: Mapping[Id, SearchedNote]
    listed_at: int
    size: int

    @classmethod
    def of(cls, notes: Iterable[SearchedNote], listed_at: int) -> "KeptNotes":
        """Build from notes."""
        by_id = {one.note.id: one for one in notes}
        return cls(by_id, listed_at, sum(one.size for one in by_id.values()))
