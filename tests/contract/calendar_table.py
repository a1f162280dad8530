"""How the recordings of calendars are replayed."""

import re

from tests.contract.contacts_table import sent
from tests.contract.recording import load
from tests.contract.replay import Session, Step, Table, case
from tests.contract.steps import expect

_RECURRING = (
    "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//rec//EN\nBEGIN:VEVENT\nUID:rec1\nDTSTAMP:20260101T000000Z\n"
    "DTSTART:20260110T100000Z\nDTEND:20260110T110000Z\nSUMMARY:weekly\nRRULE:FREQ=WEEKLY;COUNT=4\n"
    "END:VEVENT\nEND:VCALENDAR\n"
)
_UID = re.compile(r"UID:(sabre-vobject-[0-9a-f-]{36})")


def recurring(path: str = "/remote.php/dav/calendars/alice/rec-cal/rec.ics") -> Step:
    """Store the recorded event, which has four occurrences."""

    async def step(session: Session) -> None:
        headers = {"Content-Type": "text/calendar; charset=utf-8"}
        answer = await session.server.send("PUT", path, headers=headers, body=_RECURRING.encode())
        expect(answer, 201)

    return step


def repaired(name: str) -> Step:
    """Bind the UID that the server generated for an object without one."""

    async def step(session: Session) -> None:
        answer = await session.server.send("GET", "/remote.php/dav/calendars/alice/rec-cal/nouid.ics")
        recorded, made = _UID.search(load(name).text), _UID.search(answer.text)
        assert recorded is not None
        assert made is not None
        session.bind(recorded[1], made[1])

    return step


_NEW = sent("caldav/mkcalendar_201")
_CREATED = sent("caldav/mkcalendar_201", "caldav/put_create_201")
_UPDATED = sent("caldav/mkcalendar_201", "caldav/put_create_201", "caldav/put_update_204")
_TASK = sent("caldav/mkcalendar_201", "caldav/put_vtodo_201")
_SHARED = sent("caldav/mkcalendar_201", "caldav/proppatch_displayname", "caldav/share_to_bob")
_ALL = (_UPDATED, recurring(), sent("caldav/put_no_uid"))
_QUERY = "caldav/report_query_all"

CALENDARS: Table = {
    "caldav/bob_sees_shared": case(_SHARED),
    "caldav/delete_204": case(_TASK),
    "caldav/delete_404": case(_NEW),
    "caldav/delete_calendar_204": case(_NEW),
    "caldav/delete_stale_412": case(_TASK),
    "caldav/discovery_home_sets": case(),
    "caldav/get_404": case(_NEW),
    "caldav/get_event": case(_UPDATED),
    "caldav/home_propfind": case(),
    "caldav/mkcalendar_201": case(),
    "caldav/mkcalendar_again_after_trash": case(sent("caldav/mkcalendar_201", "caldav/delete_calendar_204")),
    "caldav/other_user_home": case(),
    "caldav/proppatch_displayname": case(_NEW),
    "caldav/put_create_201": case(_NEW),
    "caldav/put_duplicate_uid": case(_CREATED),
    "caldav/put_exists_412": case(_CREATED),
    "caldav/put_invalid_ics": case(_NEW),
    "caldav/put_missing_calendar": case(),
    "caldav/put_no_uid": case(_NEW),
    "caldav/put_stale_412": case(_UPDATED),
    "caldav/put_update_204": case(_CREATED),
    "caldav/put_vtodo_201": case(_NEW),
    "caldav/report_multiget_with_missing": case(_UPDATED),
    "caldav/report_query_all": case(*_ALL, repaired(_QUERY)),
    "caldav/report_query_range": case(*_ALL),
    "caldav/report_query_vtodo": case(_TASK),
    "caldav/share_to_bob": case(_NEW),
    "caldav/trashbin_objects": case(),
}
