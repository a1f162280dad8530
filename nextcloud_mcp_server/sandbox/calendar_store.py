"""Calendars of the sandbox, and the objects in them as they were stored."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

BIRTHDAYS = "contact_birthdays"

_KINDS = ("VEVENT", "VTODO", "VJOURNAL")
_FOLDS = re.compile(r"\r?\n[ \t]")
_LINE = re.compile(r"[A-Za-z0-9-]+(?:;[^:]*)?:")
_DIGITS = re.compile(r"\d{8}(?:T\d{6})?")


@dataclass(slots=True)
class StoredObject:
    """One object. What is asked of a file is asked of it too, so it says that it is no folder."""

    data: str
    modified_at: float
    is_folder: bool = field(default=False, init=False)

    @property
    def etag(self) -> str:
        """Tell one text from another."""
        return hashlib.md5(self.data.encode(), usedforsecurity=False).hexdigest()

    @property
    def kind(self) -> str:
        """What it holds: VEVENT, VTODO."""
        begun = (value for name, value in _properties(self.data) if name == "BEGIN")
        return next((value for value in begun if value in _KINDS), "")

    def takes_place(self, start: str, end: str) -> bool:
        """Say whether it may fall into a range; what recurs does from its start on, wherever its end is.

        Zones are not looked at, so this may be off by as many hours as they are.
        """
        inside = self.data.partition(f"BEGIN:{self.kind}")[2]
        found = dict(reversed(list(_properties(inside))))
        first = _digits(found.get("DTSTART", ""))
        last = _digits(found.get("DTEND", "")) or first
        return first < end and (last > start or first >= start or "RRULE" in found)


@dataclass(slots=True)
class StoredCalendar:
    """One calendar; `shared_with` says who else has it, and whether they may write to it."""

    display_name: str
    color: str = "#00679e"
    order: str | None = "0"
    kinds: tuple[str, ...] = ("VEVENT",)
    kind: Literal["own", "birthdays"] = "own"
    changes: int = 1
    deleted: bool = False
    objects: dict[str, StoredObject] = field(default_factory=dict[str, StoredObject])
    trash: dict[str, StoredObject] = field(default_factory=dict[str, StoredObject])
    shared_with: dict[str, bool] = field(default_factory=dict[str, bool])

    def put(self, name: str, data: str, now: float) -> None:
        """Store an object under a name."""
        self.objects[name] = StoredObject(data, now)
        self.changes += 1

    def holds_uid(self, uid: str | None, *, but: str) -> bool:
        """Say whether another object has this UID."""
        return any(uid_of(one.data) == uid for name, one in self.objects.items() if name != but)


def new_calendars() -> dict[str, StoredCalendar]:
    """Give what each person has from the start."""
    return {
        "personal": StoredCalendar("Personal"),
        BIRTHDAYS: StoredCalendar("Contact birthdays", color="#E9D859", kind="birthdays"),
    }


def broken_line(data: str) -> int | None:
    """Give the number of the first line that is none."""
    lines = _FOLDS.sub("", data).splitlines()
    return next((number for number, line in enumerate(lines, start=1) if not _LINE.match(line)), None)


def uid_of(data: str) -> str | None:
    """Give the UID of an object."""
    return next((value for name, value in _properties(data) if name == "UID"), None)


def repaired(data: str) -> str:
    """Add the UID that an object lacks, as the server does."""
    newline = "\r\n" if "\r\n" in data else "\n"
    head, end, tail = data.rpartition(f"END:{StoredObject(data, 0).kind}")
    return f"{head}UID:sabre-vobject-{uuid4()}{newline}{end}{tail}"


def _properties(data: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in _FOLDS.sub("", data).splitlines():
        head, _, value = line.partition(":")
        found.append((head.partition(";")[0].upper(), value))
    return found


def _digits(value: str) -> str:
    match = _DIGITS.match(value)
    if match is None:
        return ""
    return match[0] if "T" in match[0] else f"{match[0]}T000000"
