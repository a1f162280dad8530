"""Reads which attendees Nextcloud notified of a meeting (RFC 6638 §3.2.9, §7.3)."""

from collections.abc import Iterable
from typing import Final

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import ical
from nextcloud_mcp_server.formats.ical import Component, Line, Unreadable
from nextcloud_mcp_server.nextcloud.caldav import Stored
from nextcloud_mcp_server.tools.result import Result

_STATUS: Final = "SCHEDULE-STATUS"
#: The meaning of the codes in Nextcloud (`Schedule/Plugin.php` of sabre/dav, `IMipPlugin.php` of Nextcloud).
_MEANINGS: Final = {
    "1.0": "not told yet, or not told because the change is too small for a mail",
    "1.1": "mailed",
    "1.2": "put into their calendar",
    "3.7": "not told: no account here has this address, and no mail was sent, as for what is over",
    "3.8": "not told: this person may not invite them",
    "5.0": "not told: the mail could not be sent",
    "5.1": "not told: the delivery did not succeed",
    "5.2": "not told: Nextcloud has no way to reach this address",
    "5.3": "not told: their server refused it",
}
_DELIVERED: Final = ("1", "2")
_AS_BEFORE: Final = "now, or at the last change that mattered"
_NO_ADDRESS: Final = (
    "No guest was invited and nothing was written: invitations come from an e-mail address, and this person has none "
    "in Nextcloud. Ask them to set one in their Nextcloud settings, or send it without 'attendees'."
)
_NOT_THEIRS: Final = (
    "Only {organizer}, who called this meeting, can change who is invited, so nothing was written. Send the change "
    "without 'attendees'; 'answer' answers the invitation."
)


class NotifiedGuest(Result):
    """What became of telling a user of a change."""

    email: str
    result: str


def notice(email: str, result: str) -> NotifiedGuest:
    """Say what became of telling a user."""
    return NotifiedGuest(email=email, result=result)


def organizer(attendees: list[str] | None, addresses: list[str], one: Component | None = None) -> str:
    """Return the user's address that sends the invitations; "" without attendees.

    Raises:
      InvalidInput: The user has no address, or `one` is a meeting that another user organizes.
    """
    if not attendees:
        return ""
    own = [each for each in addresses if each.lower().startswith("mailto:")]
    if not own:
        raise errors.InvalidInput(_NO_ADDRESS)
    line = None if one is None else one.first("ORGANIZER")
    if one is not None and line is not None and line.value.strip().lower() not in map(str.lower, own):
        # In a shared calendar the owner may be the organizer.
        mine = {each.lower().removeprefix("mailto:") for each in own}
        if mine & {each.lower() for each in invited([one])}:
            raise errors.InvalidInput(_NOT_THEIRS.format(organizer=mail_of(line)))
    return own[0]


def delivery_results(before: str, sent: str, stored: Stored) -> tuple[NotifiedGuest, ...]:
    """List the users who were notified of a change between two texts, as Nextcloud recorded it."""
    old, new = ({each.lower(): each for each in invited(_events(text))} for text in (before, sent))
    added = [new[key] for key in new if key not in old]
    gone = [old[key] for key in old if key not in new]
    if stored.etag is None:
        return tuple(notice(each, "not known, for Nextcloud's answer was lost") for each in (*added, *gone))
    noted = notices(stored.text)
    if not stored.rewritten:
        # Includes users notified again with the same result: then the recorded status does not change.
        noted = [notice(each.email, f"{each.result} ({_AS_BEFORE})") for each in noted]
    named = {each.email.lower() for each in noted}
    cancelled = "told" if stored.rewritten else "not told"
    return (
        *noted,
        *(notice(each, "not told: Nextcloud sent nothing") for each in added if each.lower() not in named),
        *(notice(each, f"{cancelled} that they are no longer invited") for each in gone),
    )


def notices(text: str) -> list[NotifiedGuest]:
    """List the recorded notification of each user; users whom Nextcloud never notifies are left out."""
    found: dict[str, NotifiedGuest] = {}
    for line in _people(_events(text)):
        if (meaning := delivery(line)) is not None:
            found[mail_of(line).lower()] = notice(mail_of(line), meaning)
    return list(found.values())


def delivery(line: Line) -> str | None:
    """Return the notification status in the line of one user; None without one."""
    # There may be several codes; the last one is the latest.
    codes = [each.partition(";")[0].strip() for each in line.parameter(_STATUS).split(",")]
    code = codes[-1]
    if not code:
        return None
    return _MEANINGS.get(code, "told" if code[:1] in _DELIVERED else f"not told (status {code[:9]})")


def undelivered(line: Line) -> str | None:
    """Return why one user was not notified; None where the user was, or where unknown."""
    found = delivery(line)
    return found if found is not None and found.startswith("not told") else None


def invited(components: Iterable[Component]) -> list[str]:
    """List the addresses of the attendees, each once, without the organizer."""
    found: dict[str, str] = {}
    for one in components:
        organizer = one.text("ORGANIZER").strip().lower()
        for line in one.every("ATTENDEE"):
            if line.value.strip().lower() != organizer:
                found.setdefault(mail_of(line).lower(), mail_of(line))
    return list(found.values())


def mail_of(line: Line) -> str:
    """Return the address of a line without `mailto:`."""
    value = line.value.strip()
    return value[7:] if value.lower().startswith("mailto:") else value


def _events(text: str) -> list[Component]:
    try:
        return list(ical.read(text).components("VEVENT"))
    except Unreadable:
        return []


def _people(events: Iterable[Component]) -> Iterable[Line]:
    for event in events:
        for name in ("ORGANIZER", "ATTENDEE"):
            yield from event.every(name)
