"""The events and tasks a demo sandbox starts with, around the day it starts."""

from datetime import timedelta

from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar
from nextcloud_mcp_server.sandbox.state import State

_BERLIN = "Europe/Berlin"


def seed_calendars(state: State) -> None:
    """Give alice a week with meetings, an invitation and a list of tasks; bob shares a calendar with her."""
    now = state.clock()
    monday = now.date() - timedelta(days=now.weekday())

    def day(days: int) -> str:
        return f"{monday + timedelta(days=days):%Y%m%d}"

    events = {
        "standup": (
            f"DTSTART;TZID={_BERLIN}:{day(0)}T093000", f"DTEND;TZID={_BERLIN}:{day(0)}T094500",
            "RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "SUMMARY:Stand-up", "LOCATION:Room 2",
        ),
        "budget": (
            f"DTSTART;TZID={_BERLIN}:{day(8)}T100000", f"DTEND;TZID={_BERLIN}:{day(8)}T113000", "SUMMARY:Budget 2027",
            "DESCRIPTION:The draft is in Documents/Budget 2027.csv.",
            "ORGANIZER;CN=Bob Builder:mailto:bob@example.test",
            "ATTENDEE;CN=Alice Example;PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:alice@example.test",
        ),
        "lisbon": (
            f"DTSTART;VALUE=DATE:{day(11)}", f"DTEND;VALUE=DATE:{day(14)}", "SUMMARY:Lisbon", "TRANSP:TRANSPARENT",
        ),
    }  # fmt: skip
    tasks = {
        "boxes": (f"DUE;VALUE=DATE:{day(4)}", "SUMMARY:Order boxes", "PRIORITY:1"),
        "labels": (f"DUE;VALUE=DATE:{day(9)}", "SUMMARY:Print labels", "RELATED-TO:seed-boxes"),
        "plants": (f"DUE;VALUE=DATE:{day(2)}", "RRULE:FREQ=WEEKLY", "SUMMARY:Water the plants"),
        "tickets": ("SUMMARY:Book the train", "STATUS:COMPLETED", f"COMPLETED:{day(0)}T080000Z"),
    }
    alice, bob = state.users["alice"], state.users["bob"]
    alice.calendars["tasks"] = StoredCalendar("Tasks", kinds=("VTODO",))
    bob.calendars["office"] = StoredCalendar("Office", shared_with={"alice": True})
    team = {"move": (f"DTSTART;VALUE=DATE:{day(15)}", "SUMMARY:Office move")}
    _fill(state, alice.calendars["personal"], "VEVENT", events)
    _fill(state, alice.calendars["tasks"], "VTODO", tasks)
    _fill(state, bob.calendars["office"], "VEVENT", team)


def _fill(state: State, calendar: StoredCalendar, kind: str, objects: dict[str, tuple[str, ...]]) -> None:
    now = state.clock()
    for name, lines in objects.items():
        whole = (
            "BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Sandbox//EN", f"BEGIN:{kind}", f"UID:seed-{name}",
            f"DTSTAMP:{now:%Y%m%dT%H%M%SZ}", *lines, f"END:{kind}", "END:VCALENDAR",
        )  # fmt: skip
        calendar.put(f"{name}.ics", "".join(f"{line}\r\n" for line in whole), now.timestamp())
