"""The trash of the sandbox's calendars, as Nextcloud's `CalDAV/Trashbin` and `CalDavBackend.php` keep it."""

from datetime import UTC, datetime

from nextcloud_mcp_server.sandbox.calendar_properties import Values, object_values
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar, Trashed, uid_of
from nextcloud_mcp_server.sandbox.dav_xml import DavFault, bad_request, forbidden, not_found
from nextcloud_mcp_server.sandbox.state import State, User

_NS = "http://nextcloud.com/ns"


def discard(state: State, calendar: StoredCalendar, name: str) -> None:
    """Move an object to the trash; its name becomes free."""
    trashed = _renamed(name)
    _check_free(calendar, trashed)
    calendar.trash[trashed] = Trashed(
        state.next_file_id(), calendar.objects.pop(name), int(state.clock().timestamp())
    )
    calendar.changes += 1


def check_trash(state: State, calendar: StoredCalendar, uid: str) -> None:
    """Refuse to store a UID that is in the trash.

    Nextcloud intends to rename the old object, but its database allows each UID only once (seen on 32.0.1
    with PostgreSQL).
    """
    if all(uid_of(one.stored.data) != uid for one in calendar.trash.values()):
        return
    if state.refuses_deleted_uids:
        # Until 25.0.6 (nextcloud/server#34375).
        raise bad_request("Deleted calendar object with uid already exists in this calendar collection.")
    raise DavFault(
        500,
        "OC\\DB\\Exceptions\\DbalException",
        "An exception occurred while executing a query: SQLSTATE[23505]: Unique violation: 7 ERROR:  duplicate key "
        'value violates unique constraint "calobjects_by_uid_index"\nDETAIL:  Key (calendarid, calendartype, uid)='
        f"(36, 0, {uid}) already exists.",
    )


def trashed_values(user: User) -> dict[str, Values]:
    """Return what a user deleted from their own calendars, by its name in the trash."""
    return {
        f"{one.id}.ics": {
            **object_values(one.stored),
            f"{{{_NS}}}deleted-at": datetime.fromtimestamp(one.deleted_at, UTC).isoformat(),
            f"{{{_NS}}}calendar-uri": uri,
        }
        for uri, calendar in user.calendars.items()
        if not calendar.deleted
        for one in calendar.trash.values()
    }


def restore(user: User, name: str) -> None:
    """Move an object back to its calendar."""
    for calendar in user.calendars.values():
        for uri, one in calendar.trash.items():
            if f"{one.id}.ics" != name:
                continue
            old = uri.replace("-deleted.ics", ".ics")
            if old in calendar.objects or old in calendar.trash:
                raise forbidden(
                    f"Can not restore calendar {one.id} because a calendar object with the URI {old} already exists"
                )
            calendar.objects[old] = calendar.trash.pop(uri).stored
            calendar.changes += 1
            return
    raise not_found("")


def _renamed(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return f"{stem}-deleted.{ending}" if dot else f"{name}-deleted"


def _check_free(calendar: StoredCalendar, name: str) -> None:
    if name in calendar.trash or name in calendar.objects:
        raise forbidden(
            f"A calendar object with URI {name} already exists in calendar 7, therefore this object can't be moved "
            "into the trashbin"
        )
