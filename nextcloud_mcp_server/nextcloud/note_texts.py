"""The texts of people's notes, kept in memory between two searches: bounded, and never handed out unasked.

What is kept of a person is used only beside an answer that Nextcloud has just given to that person's own
credential, and only for the notes which that answer names. It is bound to the account's id, and dropped when the
access ends, when it was not used for a while, and when there is too much.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

from nextcloud_mcp_server.nextcloud.http import NextcloudCredential
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.note import Note
from nextcloud_mcp_server.nextcloud.ranking import Document, fold

#: Of one person, and of all; texts that are longer are fetched anew by each search.
MAX_PERSON_BYTES: Final = 24 * 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_PEOPLE: Final = 50
IDLE_SECONDS: Final = 900.0


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
class Kept:
    """One person's notes as of the moment `listed_at` of Nextcloud's clock, in seconds."""

    notes: Mapping[Id, SearchedNote]
    listed_at: int
    size: int

    @classmethod
    def of(cls, notes: Iterable[SearchedNote], listed_at: int) -> "Kept":
        """Put notes together."""
        by_id = {one.note.id: one for one in notes}
        return cls(by_id, listed_at, sum(one.size for one in by_id.values()))


@dataclass(slots=True)
class _Shelf:
    kept: Kept
    credential: NextcloudCredential
    used_at: float


@dataclass
class NoteTexts:
    """Everybody's shelf; one per server process."""

    monotonic: Callable[[], float] = anyio.current_time
    max_person_bytes: int = MAX_PERSON_BYTES
    max_bytes: int = MAX_BYTES
    max_people: int = MAX_PEOPLE
    idle_seconds: float = IDLE_SECONDS
    _shelves: OrderedDict[str, _Shelf] = field(
        default_factory=OrderedDict[str, _Shelf], init=False, repr=False
    )

    def of(self, uid: str, credential: NextcloudCredential) -> "PersonalTexts":
        """Open one person's shelf."""
        return PersonalTexts(self, uid, credential)

    def drop(self, uid: str) -> None:
        """Forget what is kept of a person."""
        self._shelves.pop(uid, None)

    def drop_credential(self, credential: NextcloudCredential) -> None:
        """Forget what was last used with a credential that ends now."""
        for uid in [uid for uid, shelf in self._shelves.items() if shelf.credential == credential]:
            self.drop(uid)

    @property
    def size(self) -> int:
        """Count the bytes that are kept."""
        return sum(shelf.kept.size for shelf in self._shelves.values())

    @property
    def people(self) -> list[str]:
        """Name whose texts are kept, the longest unused first."""
        return list(self._shelves)

    def take(self, uid: str, credential: NextcloudCredential) -> Kept | None:
        """Give what is kept of a person, for a request with this credential to confirm."""
        self._sweep()
        shelf = self._shelves.get(uid)
        if shelf is None:
            return None
        shelf.credential, shelf.used_at = credential, self.monotonic()
        self._shelves.move_to_end(uid)
        return shelf.kept

    def keep(self, uid: str, credential: NextcloudCredential, kept: Kept) -> None:
        """Keep this instead of what was there, if there is room."""
        self.drop(uid)
        if kept.size <= self.max_person_bytes:
            self._shelves[uid] = _Shelf(kept, credential, self.monotonic())
        self._sweep()

    def _sweep(self) -> None:
        oldest = self.monotonic() - self.idle_seconds
        for uid in [uid for uid, shelf in self._shelves.items() if shelf.used_at < oldest]:
            self.drop(uid)
        while len(self._shelves) > self.max_people or self.size > self.max_bytes:
            self._shelves.popitem(last=False)


@dataclass(frozen=True, slots=True)
class PersonalTexts:
    """One person's shelf, opened with one of their credentials."""

    _texts: NoteTexts
    _uid: str
    _credential: NextcloudCredential

    def take(self) -> Kept | None:
        """Give what is kept, for a request to confirm."""
        return self._texts.take(self._uid, self._credential)

    def keep(self, kept: Kept | None) -> None:
        """Keep this instead; None forgets."""
        if kept is None:
            self._texts.drop(self._uid)
        else:
            self._texts.keep(self._uid, self._credential, kept)
