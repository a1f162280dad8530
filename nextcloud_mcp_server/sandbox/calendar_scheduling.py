"""Informs the attendees of a stored meeting, as sabre/dav's `Schedule/Plugin.php` and Nextcloud's plugins do.

Nextcloud 32 compares the organizer with the addresses of the calendar's owner: without a match no user is informed.
The result is stored with each attendee as SCHEDULE-STATUS (RFC 6638 §7.3), so the stored text is not the
sent one.
"""

import re
from dataclasses import dataclass

from nextcloud_mcp_server.sandbox.calendar_store import unfolded
from nextcloud_mcp_server.sandbox.state import State, User

#: `TipBroker.php`: a change of these is worth a mail.
_SIGNIFICANT = (
    "DTSTART", "DTEND", "DURATION", "DUE", "RRULE", "RDATE", "EXDATE", "STATUS", "SUMMARY", "DESCRIPTION", "LOCATION",
)  # fmt: skip
_MAIL = re.compile(r"mailto:[^@\s]+@[^@\s]+\.[^@\s]+", re.IGNORECASE)
_PARTS = re.compile(r"((?:[^\":]|\"[^\"]*\")*):(.*)", re.DOTALL)
_STATUS = re.compile(r";SCHEDULE-STATUS=(?:\"[^\"]*\"|[^;:]*)", re.IGNORECASE)
_PARTSTAT = re.compile(r";PARTSTAT=([A-Z-]+)", re.IGNORECASE)
_OVER = "29991231T000000"


@dataclass(frozen=True, slots=True)
class _Person:
    """A line ORGANIZER or ATTENDEE."""

    head: str
    address: str

    @property
    def answer(self) -> str:
        found = _PARTSTAT.search(self.head)
        return found[1].upper() if found else ""


def scheduled(state: State, owner: User, old: str, new: str) -> str | None:
    """Inform the attendees of a change, and return the text with the results; None if no user is informed."""
    lines = unfolded(new)
    people = [_person(line) for line in lines if _is(line, "ATTENDEE")]
    organizer = next((_person(line) for line in lines if _is(line, "ORGANIZER")), None)
    own = f"mailto:{owner.email}".lower()
    before = {_person(line).address: _person(line) for line in unfolded(old) if _is(line, "ATTENDEE")}
    if organizer is None or not owner.email or "BEGIN:VEVENT" not in lines:
        return None
    if organizer.address == own:
        told = _invited(people, own)
        for address in before.keys() - {each.address for each in people} - {own}:
            _mail(state, address, "CANCEL")
        changed = _significant(old) != _significant(new)
        found = {
            address: _request(state, address, new, significant=changed or address not in before)
            for address in told
        }
        return None if not told and not before else _noted(lines, "ATTENDEE", found)
    mine = next((each for each in people if each.address == own), None)
    if mine is None or own not in before or before[own].answer == mine.answer:
        return None
    return _noted(
        lines, "ORGANIZER", {organizer.address: _request(state, organizer.address, new, significant=True)}
    )


def cancelled(state: State, owner: User, old: str) -> None:
    """Inform the attendees that a meeting was deleted."""
    lines = unfolded(old)
    organizer = next((_person(line) for line in lines if _is(line, "ORGANIZER")), None)
    own = f"mailto:{owner.email}".lower()
    people = [_person(line) for line in lines if _is(line, "ATTENDEE")]
    if organizer is not None and organizer.address == own:
        for address in _invited(people, own):
            _mail(state, address, "CANCEL")
    elif organizer is not None and any(each.address == own for each in people):
        _mail(state, organizer.address, "REPLY")


def _invited(people: list[_Person], own: str) -> list[str]:
    """Return the attendees whom the server informs, not those whom the client informs itself (RFC 6638 §7.1)."""
    return [
        each.address
        for each in people
        if each.address != own and "SCHEDULE-AGENT=CLIENT" not in each.head.upper()
    ]


def _request(state: State, address: str, text: str, *, significant: bool) -> str | None:
    """Inform one attendee, and return the status code; None keeps the existing one."""
    local = any(address == f"mailto:{user.email}".lower() for user in state.users.values() if user.email)
    status = "1.2" if local else "3.7"
    if not significant:
        return status if local else None
    if not address.startswith("mailto:") or _last(text) < f"{state.clock():%Y%m%dT%H%M%S}":
        return status
    if not _MAIL.fullmatch(address) or not state.sends_mail:
        return "5.0"
    _mail(state, address, "REQUEST")
    return "1.1"


def _mail(state: State, address: str, method: str) -> None:
    state.invitations.append((address.removeprefix("mailto:"), method))


def _last(text: str) -> str:
    """Return the end of an event, without its zone; None for a recurring one."""
    found = {
        line.partition(":")[0].partition(";")[0]: line.rpartition(":")[2]
        for line in _inside(text)
        if any(_is(line, name) for name in ("DTSTART", "DTEND", "RRULE"))
    }
    return _OVER if "RRULE" in found else found.get("DTEND") or found.get("DTSTART", _OVER)


def _significant(text: str) -> list[str]:
    return sorted(line for line in _inside(text) if any(_is(line, name) for name in _SIGNIFICANT))


def _inside(text: str) -> list[str]:
    """Return the lines of all events, without the time zones."""
    lines = unfolded(text)
    return lines[lines.index("BEGIN:VEVENT") :] if "BEGIN:VEVENT" in lines else []


def _noted(lines: list[str], name: str, statuses: dict[str, str | None]) -> str:
    written: list[str] = []
    for line in lines:
        status = statuses.get(_person(line).address) if _is(line, name) else None
        if status is None:
            written.append(line)
            continue
        head, value = _parted(line)
        written.append(f"{_STATUS.sub('', head)};SCHEDULE-STATUS={status}:{value}")
    return "".join(f"{line}\r\n" for line in written)


def _person(line: str) -> _Person:
    head, value = _parted(line)
    return _Person(head, value.lower())


def _parted(line: str) -> tuple[str, str]:
    """Split a line into name and value: at the first colon outside of quotes (RFC 5545 §3.1)."""
    found = _PARTS.fullmatch(line)
    return (found[1], found[2]) if found else (line, "")


def _is(line: str, name: str) -> bool:
    return line.startswith((f"{name};", f"{name}:"))
