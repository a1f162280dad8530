"""Errors of Nextcloud about calendars, as sentences that name the cause and the next step.

One status has many meanings here; the messages of sabre/dav and of Nextcloud's CalDavBackend distinguish them.
"""

import re
from typing import Final

from nextcloud_mcp_server import errors

DECK: Final = "deck"

NO_CALENDAR: Final = (
    "There is no such calendar or task list. nc_calendar_list_calendars names the ones there are; "
    "an event_id or a task_id begins with the one that it is in."
)
NO_OBJECT: Final = (
    "It is not there, or it belongs to another user. "
    "Find it with nc_calendar_list_events, or a task with nc_tasks_list_tasks."
)
READ_ONLY: Final = (
    "This calendar cannot be written to: it is shared read-only, subscribed to, or made by Nextcloud itself. "
    "nc_calendar_list_calendars says which can."
)
_SHARED: Final = (
    "{owner} shares this calendar read-only with the person, so nothing was changed: ask {owner} for the right to "
    "edit it, or use another calendar, which nc_calendar_list_calendars names."
)
_BIRTHDAYS: Final = (
    "Nextcloud makes this calendar from the birthdays of the contacts: change the contact with "
    "nc_contacts_update_contact instead."
)
_OF_APP: Final = (
    "The app “{app}” fills this calendar, and takes no change of it from here: change it in that app."
)
_KINDS: Final = {"VEVENT": "events", "VTODO": "tasks", "VJOURNAL": "journals"}
_WRONG_KIND: Final = (
    "This calendar takes only {kinds}: name another 'calendar'. "
    "nc_calendar_list_calendars says what each one holds."
)
_ALARM: Final = (
    "A reminder in it is not usable, so Nextcloud stores no change of it (it says: {reason}). Ask the person to delete "
    "that reminder in Nextcloud's Calendar or Tasks app, then call again."
)
_INVALID: Final = "Nextcloud does not store it like this (it says: {reason}). Change it and call again."
_NO_OCCURRENCE: Final = (
    "The series would have no occurrence left, which Nextcloud does not store: delete the whole event, without "
    "'occurrence', or send another 'rrule'."
)
_NAME_TAKEN: Final = (
    "Something else of that name is in the calendar now, so it stays in the trash. Look with nc_calendar_list_events "
    "or nc_tasks_list_tasks whether it was made anew."
)
_RESTORE: Final = (
    "Something with this UID{since} is in this calendar's trash, and Nextcloud takes no second one beside it. "
    "{how}Or ask the person to delete it for good in the trash of Nextcloud's Calendar app."
)
_HOW: Final = (
    'Call nc_calendar_update_event with event_id "{id}", etag "{etag}" and restore=true to have that one back (a task: '
    "nc_tasks_update_task with that task_id). "
)
_COPY_IN_TRASH: Final = (
    "An earlier copy of it{since} is in the calendar's trash under the same name, so Nextcloud cannot move this one "
    "there, and it was not deleted. Ask the person to delete that copy for good in the trash of Nextcloud's Calendar "
    "app, then call again."
)

#: The first message was used until 25.0.6. Since then the database rejects a second object with a UID, each database
#: in its own words (PostgreSQL and MySQL name the index, SQLite the columns).
_DELETED_TWIN = re.compile(
    r"Deleted calendar object with uid already exists|calobjects_by_uid_index|calendarobjects\.uid"
)
_OLD_COPY = re.compile(r"-deleted(?:\.\w+)? already exists in calendar")
_COMPONENTS = re.compile(r"must at least have a component of type ([A-Z, ]+)")
_CANNOT_RESTORE: Final = "Can not restore calendar"
_NO_INSTANCES: Final = "does not generate any valid instances"
_VALIDATION: Final = "Validation error in iCalendar: "
_DENIED = re.compile(r"^$|Access denied|required privileges|read-only", re.IGNORECASE)
_GENERATED = re.compile(r"app-generated--(.+?)--(.*)")
_IN_DECK = re.compile(r"app-generated--deck--(?:board|stack)-(\d+)(?:/(?:deck-)?(card|stack)-(\d+)\.ics)?")


def app_of(calendar: str) -> str:
    """Return the app that generates a calendar, from the calendar's name; empty for other calendars."""
    found = _GENERATED.match(calendar)
    return found[1] if found else ""


def refuse_deck(object_id: str) -> None:
    """Refuse, before any request, to write to an object that Deck generates.

    Raises:
      Forbidden: It is a card or a stack of Deck.
    """
    found = _IN_DECK.match(object_id)
    if found is None:
        return
    where = f"board_id {found[1]}" if "--board-" in object_id else "its board_id"
    what = f"{found[2]} {found[3]} of Deck" if found[2] else "a calendar that Deck fills"
    raise errors.Forbidden(
        f"This is {what}, not a task of the person's lists, so nothing was changed. nc_deck_get_board with {where} "
        "shows it, nc_deck_create_card and nc_deck_update_card make and change cards."
    )


def is_twin(error: errors.NextcloudError) -> bool:
    """Tell whether an object in the trash has the same UID and prevents the change."""
    return _DELETED_TWIN.search(error.reason) is not None or _OLD_COPY.search(error.reason) is not None


def twin(error: errors.NextcloudError, *, since: str, id_: str, etag: str | None) -> errors.NextcloudError:
    """Return the error that names the object in the trash; `since` and `id_` are empty where unknown."""
    when = f", deleted at {since}," if since else ""
    if _DELETED_TWIN.search(error.reason) is None:
        return errors.Conflict(_COPY_IN_TRASH.format(since=when))
    how = _HOW.format(id=id_, etag=etag) if id_ and etag else ""
    return errors.AlreadyExists(_RESTORE.format(since=when, how=how))


def may_be_read_only(error: errors.NextcloudError) -> bool:
    """Tell whether an error may mean that the calendar is read-only: no other reason is given.

    Nextcloud answers 404 for what belongs to another user.
    """
    if isinstance(error, errors.NotFound):
        return True
    return isinstance(error, errors.Forbidden) and _DENIED.search(error.reason) is not None


def read_only(calendar: str, owner: str) -> errors.Forbidden:
    """Return the error for a read-only calendar; `owner` is the user who shares it, or empty."""
    if calendar == "contact_birthdays":
        return errors.Forbidden(_BIRTHDAYS)
    if app := app_of(calendar):
        return errors.Forbidden(_OF_APP.format(app=app))
    return errors.Forbidden(_SHARED.format(owner=owner) if owner else READ_ONLY)


def worded(error: errors.NextcloudError) -> errors.NextcloudError:
    """Return an error worded by the reason that Nextcloud gave; an unknown one is returned unchanged."""
    reason = error.reason
    if kinds := _COMPONENTS.search(reason):
        words = [_KINDS.get(each.strip(), each.strip()) for each in kinds[1].split(",")]
        return errors.Forbidden(_WRONG_KIND.format(kinds=" and ".join(words)))
    if _CANNOT_RESTORE in reason:
        return errors.AlreadyExists(_NAME_TAKEN)
    if _NO_INSTANCES in reason:
        return errors.InvalidName(_NO_OCCURRENCE)
    if reason.startswith(_VALIDATION):
        detail = reason.removeprefix(_VALIDATION)[:200]
        return errors.InvalidName((_ALARM if "VALARM" in detail else _INVALID).format(reason=detail))
    return error
