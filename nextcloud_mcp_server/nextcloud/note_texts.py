"""The texts of a user's notes, as they are kept between two searches (see `shelves`)."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.note import Note
from nextcloud_mcp_server.nextcloud.ranking import Document, fold


@dataclass(frozen=True, slots=True)
class SearchedNote:
    """A note with its text, and both title and text as they are compared."""

    note: Note
    folded: Document

    @classmethod
    def of(cls, note: Note) -> "SearchedNote":
        """Prepare a note; what Nextcloud puts in the place of a text that it cannot read is none."""
        text = "" if note.error else note.content or ""
        return cls(note, Document(fold(note.title), fold(text)))

    @property
    def size(self) -> int:
        """Count about how many bytes of memory this takes."""
        texts = (self.note.content or "", self.folded.body, self.note.title, self.folded.title)
        return sum(map(sys.getsizeof, texts)) + 1000


@dataclass(frozen=True, slots=True)
class KeptNotes:
    """One user's notes as of the moment `listed_at` of Nextcloud's clock, in seconds."""

    notes: Mapping[Id, SearchedNote]
    listed_at: int
    size: int

    @classmethod
    def of(cls, notes: Iterable[SearchedNote], listed_at: int) -> "KeptNotes":
        """Put notes together."""
        by_id = {one.note.id: one for one in notes}
        return cls(by_id, listed_at, sum(one.size for one in by_id.values()))
