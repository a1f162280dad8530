from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from httpx2 import AsyncClient
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.calendar.agenda import Event
from nextcloud_mcp_server.apps.calendar.client import CalendarClient
from nextcloud_mcp_server.apps.tasks.client import Task, TasksClient
from nextcloud_mcp_server.apps.tasks.edit import TaskChanges
from nextcloud_mcp_server.formats import ical_time
from nextcloud_mcp_server.formats.event_edit import Changes
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from tests.contract.recording import load
from tests.contract.server import Server
from tests.contract.steps import clean, expect, set_email

_LOW = datetime(2026, 10, 1, tzinfo=UTC)
_HIGH = _LOW + timedelta(days=90)


def etag(found: Event | Task) -> str:
    """Give the etag that Nextcloud told."""
    assert found.stored.etag is not None
    return found.stored.etag


@pytest.fixture
async def alice(server: Server, pool: AsyncClient) -> Account:
    """Alice's account, with the calendar of the recordings."""
    await clean(server)
    made = load("caldav/mkcalendar_201")
    expect(
        await server.send(made.method, made.path, headers={"Content-Type": "text/xml"}, body=made.body), 201
    )
    nextcloud = Nextcloud(NextcloudUrl.parse(server.base), pool)
    return nextcloud.account(BasicCredential("alice", SecretStr(server.passwords["alice"])), uid="alice")


async def test_an_event_moved_alone_keeps_the_series(alice: Account) -> None:
    calendar, start = (
        alice.client(CalendarClient),
        datetime(2026, 10, 21, 14, 10, tzinfo=ZoneInfo("America/New_York")),
    )
    series = Changes(
        title="Wöchentlich 🎉", start=start, end=start + timedelta(hours=1), rule="FREQ=WEEKLY;COUNT=4"
    )

    async def moved(event: Event) -> Changes:
        return Changes(title="Moved", start=event.at.start + timedelta(days=1))

    made = await calendar.create("rec-cal", series, reminder=5)
    id_ = made.stored.id
    changed = await calendar.update(id_, moved, if_match=etag(made), occurrence="2026-10-28T14:10:00-04:00")
    left = await calendar.remove(id_, if_match=etag(changed), occurrence="2026-11-11T14:10:00-05:00")
    found = (await calendar.between(_LOW, _HIGH, zone=UTC, calendar="rec-cal")).events
    with pytest.raises(errors.EtagMismatch):
        await calendar.delete(id_, if_match=etag(changed))
    gone = await calendar.delete(id_, if_match=etag(left))

    assert sorted(ical_time.shown(event.at.start) for event in found) == [
        "2026-10-21T14:10:00-04:00",
        "2026-10-29T14:10:00-04:00",
        "2026-11-04T14:10:00-05:00",
    ]
    assert gone.title == "Wöchentlich 🎉"
    assert (await calendar.between(_LOW, _HIGH, zone=UTC, calendar="rec-cal")).events == []


async def test_a_task_is_made_completed_and_deleted(alice: Account) -> None:
    made = await alice.client(TasksClient).create(
        "rec-cal", TaskChanges(title="Buy milk", due=ical_time.given("due", "2026-08-08", UTC))
    )

    async def done(_: object) -> TaskChanges:
        return TaskChanges(completed=True)

    completed = await alice.client(TasksClient).update(made.stored.id, done, if_match=etag(made))
    listed = (await alice.client(TasksClient).tasks("rec-cal")).tasks
    await alice.client(TasksClient).delete(made.stored.id, if_match=etag(completed))

    assert [task.component.text("STATUS") for task in listed] == ["COMPLETED"]
    assert "DUE;VALUE=DATE:20260808" in listed[0].component.written
    with pytest.raises(errors.NotFound):
        await alice.client(TasksClient).get(made.stored.id)


async def test_a_calendar_of_nextclouds_own_is_read_only(alice: Account, server: Server) -> None:
    if server.sandbox is None:
        # On a new Nextcloud no recording gave her the address yet.
        await set_email(server, "alice")
    kinds = {
        each.id: (each.writable, sorted(each.kinds))
        for each in await alice.client(CalendarClient).calendars()
    }

    assert kinds["rec-cal"] == (True, ["VEVENT", "VTODO"])
    assert not kinds["contact_birthdays"][0]
    assert not {"inbox", "outbox", "trashbin"} & set(kinds)
    assert "mailto:alice@example.test" in await alice.client(CalendarClient).addresses()
