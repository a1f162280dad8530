"""Address books of the sandbox, and the cards in them as they were stored."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

SYSTEM_BOOK = "z-server-generated--system"
RECENT_BOOK = "z-app-generated--contactsinteraction--recent"

_FOLDS = re.compile(r"\r?\n[ \t]")
_NAME = re.compile(r"(?:[\w-]+\.)?([\w-]+)(?:;[^:]*)?:", re.ASCII)


@dataclass(slots=True)
class StoredCard:
    """One card. The DAV code treats it like a file, so it has the attributes of one."""

    data: str
    modified_at: float
    is_folder: bool = field(default=False, init=False)

    @property
    def etag(self) -> str:
        """Return a hash of the text."""
        return hashlib.md5(self.data.encode(), usedforsecurity=False).hexdigest()


@dataclass(slots=True)
class StoredBook:
    """One address book: the user's own, or one that Nextcloud fills and no user can write to."""

    display_name: str
    description: str | None = None
    kind: Literal["own", "system", "recent"] = "own"
    changes: int = 1
    cards: dict[str, StoredCard] = field(default_factory=dict[str, StoredCard])

    def put(self, name: str, data: str, now: float) -> None:
        """Store a card under a name."""
        self.cards[name] = StoredCard(data, now)
        self.changes += 1

    def holds_uid(self, uid: str | None, *, but: str) -> bool:
        """Return whether another card has this UID."""
        return any(uid_of(card.data) == uid for name, card in self.cards.items() if name != but)


def new_books() -> dict[str, StoredBook]:
    """Return the address books that each user has from the start."""
    return {
        "contacts": StoredBook("Contacts"),
        RECENT_BOOK: StoredBook("Recently contacted", kind="recent"),
    }


def lines_of(data: str) -> list[tuple[str, str]]:
    """Return the unfolded lines of a card with their names.

    Raises:
        ValueError: A line is not valid; the message is the number of the first such line.
    """
    found: list[tuple[str, str]] = []
    for number, line in enumerate(_FOLDS.sub("", data).splitlines(), start=1):
        match = _NAME.match(line)
        if match is None:
            raise ValueError(number)
        found.append((match[1].upper(), line))
    return found


def uid_of(data: str) -> str | None:
    """Return the UID of a card that can be read."""
    try:
        return next((line.partition(":")[2] for name, line in lines_of(data) if name == "UID"), None)
    except ValueError:
        return None


def repaired(data: str) -> str:
    """Add the UID that a card lacks, as the server does."""
    return data.replace("END:VCARD", f"UID:{uuid4()}\r\nEND:VCARD")


def delivered(data: str, names: list[str]) -> str:
    """Return a card as a REPORT or GET answers it: in vCard 3, and with only the named properties, if any.

    Raises:
        ValueError: The card cannot be parsed.
    """
    lines = lines_of(data)
    newer = ("VERSION", "VERSION:4.0") in lines
    if not newer and not names:
        return data
    kept = {*names, "BEGIN", "END", "UID", "VERSION", "FN"}
    written = [line for name, line in lines if not names or name in kept]
    if newer:
        # vCard 3 has no anniversary, and its phone numbers are texts.
        written = [
            line.replace("VERSION:4.0", "VERSION:3.0").replace("TEL;VALUE=uri:", "TEL:")
            for line in written
            if not line.startswith("ANNIVERSARY")
        ]
    return "".join(f"{line}\r\n" for line in written)
