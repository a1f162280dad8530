"""Calendars of the sandbox, and the objects in them as they were stored."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal
from uuid import uuid4

from nextcloud_mcp_server.sandbox.dav_xml import DavFault

BIRTHDAYS = "contact_birthdays"

_KINDS = ("VEVENT", "VTODO", "VJOURNAL")
_FOLDS = re.compile(r"\r?\n[ \t]")
_LINE = re.compile(r"[A-Za-z0-9-]+(?:;[^:]*)?:")
_ALARMS = re.compile(r"^BEGIN:VALARM$(.*?)^END:VALARM$", re.MULTILINE | re.DOTALL)
_UNSUPPORTED = "Sabre\\DAV\\Exception\\UnsupportedMediaType"
_UNPARSABLE = (
    "This resource only supports valid iCalendar 2.0 data. Parse error: Invalid Mimedir file. "
    "Line starting at {line} did not follow iCalendar/vCard conventions"
)
_DIGITS = re.compile(r"\d{8}(?:T\d{6})?")


@dataclass(slots=True)
class StoredObject:
    """One object. The DAV code treats it like a file, so it has the attributes of one."""

    data: str
    modified_at: float
    is_folder: bool = field(default=False, init=False)

    @property
    def etag(self) -> str:
        """Return a hash of the text."""
        return hashlib.md5(self.data.encode(), usedforsecurity=False).hexdigest()

    @property
    def kind(self) -> str:
        """The kind of component: VEVENT or VTODO."""
        begun = (value for name, value in _properties(self.data) if name == "BEGIN")
        return next((value for value in begun if value in _KINDS), "")

    def takes_place(self, start: str, end: str) -> bool:
        """Return whether the object may be in a range; a recurring one is in every range after its start.

        Time zones are ignored, so the result may be wrong by their offset.
        """
        inside = self.data.partition(f"BEGIN:{self.kind}")[2]
        found = dict(reversed(list(_properties(inside))))
        first = _digits(found.get("DTSTART", ""))
        last = _digits(found.get("DTEND", "")) or first
        return first < end and (last > start or first >= start or "RRULE" in found)


@dataclass(frozen=True, slots=True)
class Trashed:
    """A deleted object: its id in the trash, and when it was deleted."""

    id: int
    stored: StoredObject
    deleted_at: int


@dataclass(slots=True)
class StoredCalendar:
    """One calendar; `shared_with` maps other users to whether they may write to it."""

    display_name: str
    color: str = "#00679e"
    order: str | None = "0"
    kinds: tuple[str, ...] = ("VEVENT",)
    kind: Literal["own", "birthdays", "deck"] = "own"
    changes: int = 1
    deleted: bool = False
    objects: dict[str, StoredObject] = field(default_factory=dict[str, StoredObject])
    trash: dict[str, Trashed] = field(default_factory=dict[str, Trashed])
    shared_with: dict[str, bool] = field(default_factory=dict[str, bool])

    def put(self, name: str, data: str, now: float) -> None:
        """Store an object under a name."""
        self.objects[name] = StoredObject(data, now)
        self.changes += 1

    def holds_uid(self, uid: str | None, *, but: str) -> bool:
        """Return whether another object has this UID."""
        return any(uid_of(one.data) == uid for name, one in self.objects.items() if name != but)


def new_calendars() -> dict[str, StoredCalendar]:
    """Return the calendars that each user has from the start."""
    return {
        "personal": StoredCalendar("Personal"),
        BIRTHDAYS: StoredCalendar("Contact birthdays", color="#E9D859", kind="birthdays"),
    }


def check_object(calendar: StoredCalendar, data: str) -> None:
    """Refuse what sabre/dav does not store: an invalid object, or one of a kind that the calendar does not accept.

    Raises:
        DavFault: 403 or 415.
    """
    lines = unfolded(data)
    broken = next((number for number, line in enumerate(lines, start=1) if not _LINE.match(line)), None)
    if broken is not None:
        raise DavFault(415, _UNSUPPORTED, _UNPARSABLE.format(line=broken))
    if StoredObject(data, 0).kind not in calendar.kinds:
        message = f"iCalendar objects must at least have a component of type {', '.join(calendar.kinds)}"
        raise DavFault(403, "Sabre\\CalDAV\\Exception\\InvalidComponentType", message)
    for alarm in _ALARMS.findall("\n".join(lines)):
        for name in ("ACTION", "TRIGGER"):
            if len(re.findall(rf"^{name}[;:]", alarm, re.MULTILINE)) != 1:
                told = f"Validation error in iCalendar: {name} MUST appear exactly once in a VALARM component"
                raise DavFault(415, _UNSUPPORTED, told)


def unfolded(data: str) -> list[str]:
    """Return the unfolded content lines."""
    return _FOLDS.sub("", data).splitlines()


def uid_of(data: str) -> str | None:
    """Return the UID of an object."""
    return next((value for name, value in _properties(data) if name == "UID"), None)


def repaired(data: str) -> str:
    """Add the UID that an object lacks, as the server does."""
    newline = "\r\n" if "\r\n" in data else "\n"
    head, end, tail = data.rpartition(f"END:{StoredObject(data, 0).kind}")
    return f"{head}UID:sabre-vobject-{uuid4()}{newline}{end}{tail}"


def _properties(data: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in unfolded(data):
        head, _, value = line.partition(":")
        found.append((head.partition(";")[0].upper(), value))
    return found


def _digits(value: str) -> str:
    match = _DIGITS.match(value)
    if match is None:
        return ""
    return match[0] if "T" in match[0] else f"{match[0]}T000000"
