"""What was deleted from a calendar comes back, and what in the trash stands in the way is named."""

import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.caldav import CalDav
from nextcloud_mcp_server.nextcloud.calendar_trash import CalendarTrash
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar
from tests.dav_fakes import account_in, account_over, call, http_over

DEMO = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:demo-1@example.test\r\nDTSTAMP:20260101T000000Z\r\n"
    "DTSTART:20261201T100000Z\r\nDTEND:20261201T110000Z\r\nSUMMARY:Demo\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)
TASK = DEMO.replace("VEVENT", "VTODO").replace("DTEND", "DUE")
NAME = "demo-1@example.test.ics"
ID = f"personal/{NAME}"


class PersonalApp:
    """A sandbox with alice's calendars."""

    def __init__(self) -> None:
        self.sandbox = Sandbox()
        for uid in ("alice", "bob"):
            self.sandbox.add_user(uid).email = f"{uid}@example.test"
        self.calendars = self.sandbox.state.users["alice"].calendars
        self.calendars["todo"] = StoredCalendar("To do", kinds=("VTODO",))
        self.account: Account = account_in(self.sandbox)

    async def put(self, text: str = DEMO, name: str = NAME, calendar: str = "personal") -> httpx2.Response:
        """Store an object as another program does, which keeps its UID and its name."""
        transport = httpx2.ASGITransport(app=self.sandbox.app)
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", auth=("alice", "alice")
        ) as client:
            url = f"/remote.php/dav/calendars/alice/{calendar}/{name}"
            return await client.put(url, content=text.encode())

    async def call(self, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each tool's own result
        return await call(self.account, tool, **arguments)

    async def delete(self, event_id: str = ID) -> Any:  # noqa: ANN401 - see above
        etag = (await self.call("nc_calendar_get_event", event_id=event_id)).etag
        return await self.call("nc_calendar_delete_event", event_id=event_id, etag=etag)


@pytest.fixture
async def personal_app() -> PersonalApp:
    return PersonalApp()


async def test_a_deleted_event_is_restored_with_what_its_deletion_answered(personal_app: PersonalApp) -> None:
    """N17: the answer to a deletion says how the event comes back, and it does."""
    await personal_app.put()
    gone = await personal_app.delete()

    back = await personal_app.call(
        "nc_calendar_update_event", event_id=gone.event_id, etag=gone.etag, restore=True
    )

    assert "restore=true" in gone.undo
    assert (back.event_id, back.title, back.etag) == (ID, "Demo", gone.etag)
    assert personal_app.calendars["personal"].objects[NAME].data == DEMO
    assert personal_app.calendars["personal"].trash == {}


async def test_a_deleted_task_is_restored(personal_app: PersonalApp) -> None:
    await personal_app.put(TASK, calendar="todo")
    row = (await personal_app.call("nc_tasks_list_tasks")).tasks[0]
    gone = await personal_app.call("nc_tasks_delete_task", task_id=row.task_id, etag=row.etag)

    back = await personal_app.call("nc_tasks_update_task", task_id=gone.task_id, etag=gone.etag, restore=True)

    assert "restore=true" in gone.undo
    assert (back.task_id, back.title) == (f"todo/{NAME}", "Demo")
    assert [each.title for each in (await personal_app.call("nc_tasks_list_tasks")).tasks] == ["Demo"]


async def test_what_is_in_no_trash_is_not_restored(personal_app: PersonalApp) -> None:
    await personal_app.put()

    with pytest.raises(errors.NotFound, match="only its owner finds"):
        await personal_app.call("nc_calendar_update_event", event_id=ID, etag="other", restore=True)


async def test_restoring_goes_alone(personal_app: PersonalApp) -> None:
    for tool, name in (("nc_calendar_update_event", "event_id"), ("nc_tasks_update_task", "task_id")):
        with pytest.raises(errors.InvalidInput, match="'restore' goes alone"):
            await personal_app.call(tool, **{name: ID}, etag="e", restore=True, title="x")
    with pytest.raises(errors.InvalidInput, match="'restore' goes alone"):
        await personal_app.call(
            "nc_calendar_update_event", event_id=ID, etag="e", restore=True, occurrence="2026-12-01"
        )


async def test_what_has_taken_the_place_of_a_deleted_event_is_named(personal_app: PersonalApp) -> None:
    await personal_app.put()
    gone = await personal_app.delete()
    await personal_app.put(DEMO.replace("demo-1", "another"))

    with pytest.raises(errors.AlreadyExists, match=r"stays in the trash.*nc_calendar_list_events"):
        await personal_app.call("nc_calendar_update_event", event_id=ID, etag=gone.etag, restore=True)


async def test_a_copy_in_the_trash_that_keeps_an_event_from_being_deleted_is_named(
    personal_app: PersonalApp,
) -> None:
    """N17: what was stored under a name that something deleted had, cannot follow it into the trash."""
    await personal_app.put()
    await personal_app.delete()
    assert (await personal_app.put(DEMO.replace("demo-1", "another"))).status_code == 201

    with pytest.raises(errors.Conflict) as refused:
        await personal_app.delete()

    told = str(refused.value)
    assert "An earlier copy of it is in the calendar's trash" in told
    assert "was not deleted" in told
    assert "delete that copy for good in the trash" in told
    assert not {"403", "<", "-deleted.ics"} & set(told.split())
    assert NAME in personal_app.calendars["personal"].objects


@pytest.mark.parametrize("old", [True, False])
async def test_a_deleted_twin_is_named_and_can_be_restored(personal_app: PersonalApp, *, old: bool) -> None:
    """N17: an import with the UID of something in the trash is told what is there, and how it comes back."""
    personal_app.sandbox.state.refuses_deleted_uids = old
    await personal_app.put()
    await personal_app.delete()
    pool = open_pool(
        ca_bundle=None, user_agent="tests", transport=httpx2.ASGITransport(app=personal_app.sandbox.app)
    )
    credential = BasicCredential("alice", SecretStr("alice"))
    dav = CalDav(
        NextcloudHttp(pool, NextcloudUrl.parse("http://localhost"), credential=credential, uid="alice")
    )

    with pytest.raises(errors.AlreadyExists) as refused:
        await dav.create("personal", DEMO)

    told = str(refused.value)
    assert "deleted at 20" in told
    found = dict(zip(("event_id", "etag"), told.split('"')[1::2], strict=False))
    back = await personal_app.call("nc_calendar_update_event", **found, restore=True)
    assert back.event_id == ID


def _refusing(status: int, exception: str, message: str) -> Callable[[httpx2.Request], httpx2.Response]:
    body = (
        '<?xml version="1.0" encoding="utf-8"?><d:error xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns">'
        f"<s:exception>{exception}</s:exception><s:message>{message}</s:message></d:error>"
    )

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "PUT":
            return httpx2.Response(status, stream=httpx2.ByteStream(body.encode()))
        return httpx2.Response(503, stream=httpx2.ByteStream(b""))

    return answer


@pytest.mark.parametrize(
    ("status", "exception", "message", "told"),
    [
        (403, "Sabre\\CalDAV\\Exception\\InvalidComponentType",
         "iCalendar objects must at least have a component of type VTODO", "takes only tasks: name another 'calendar'"),
        (403, "Sabre\\CalDAV\\Exception\\InvalidComponentType",
         "iCalendar objects must at least have a component of type VTODO, VJOURNAL", "takes only tasks and journals"),
        (415, "Sabre\\DAV\\Exception\\UnsupportedMediaType",
         "Validation error in iCalendar: TRIGGER MUST appear exactly once in a VALARM component",
         "A reminder in it is not usable"),
        (415, "Sabre\\DAV\\Exception\\UnsupportedMediaType",
         "Validation error in iCalendar: DTEND must be after DTSTART", "(it says: DTEND must be after DTSTART)"),
        (500, "Sabre\\VObject\\Recur\\NoInstancesException",
         "This recurrence rule does not generate any valid instances", "would have no occurrence left"),
        (500, "OC\\DB\\Exceptions\\DbalException",
         "UNIQUE constraint failed: oc_calendarobjects.calendarid, oc_calendarobjects.uid",
         "is in this calendar's trash"),
        (500, "OC\\DB\\Exceptions\\DbalException",
         "Duplicate entry '1-0-a' for key 'oc_calendarobjects.calobjects_by_uid_index'",
         "is in this calendar's trash"),
        (400, "Sabre\\DAV\\Exception\\BadRequest",
         "Deleted calendar object with uid already exists in this calendar collection.",
         "is in this calendar's trash"),
        (403, "Sabre\\DAV\\Exception\\Forbidden",
         ("A calendar object with URI a-deleted.ics already exists in calendar 23, therefore this object can't be "
         "moved into the trashbin"), "An earlier copy of it is in the calendar's trash"),
        (403, "Sabre\\DAV\\Exception\\Forbidden", "Public upload is not allowed today",
         "does not allow this (it says: Public upload is not allowed today)"),
        (403, "Sabre\\DAV\\Exception\\Forbidden", "Access denied", "Access denied"),
    ],
)  # fmt: skip
async def test_each_cause_of_a_refusal_has_its_own_sentence(
    status: int, exception: str, message: str, told: str
) -> None:
    """N17: no refusal is called a read-only share unless it is one, and none repeats XML."""
    account = account_over(_refusing(status, exception, message))

    with pytest.raises(errors.NextcloudError) as refused:
        await call(account, "nc_calendar_create_event", title="x", start="2026-12-01T10:00", timezone="UTC")

    assert told in str(refused.value)
    assert "shared read-only" not in str(refused.value)
    assert "<" not in str(refused.value)


async def test_a_calendar_of_the_wrong_kind_is_named(personal_app: PersonalApp) -> None:
    with pytest.raises(errors.Forbidden, match="takes only tasks"):
        await personal_app.call("nc_calendar_create_event", title="x", start="2026-12-01", calendar="todo")
    with pytest.raises(errors.Forbidden, match="takes only events"):
        await personal_app.call("nc_tasks_create_task", title="x", calendar="personal")


async def test_a_reminder_that_nextcloud_does_not_take_is_named(personal_app: PersonalApp) -> None:
    broken = DEMO.replace("END:VEVENT", "BEGIN:VALARM\r\nACTION:DISPLAY\r\nEND:VALARM\r\nEND:VEVENT")
    personal_app.calendars["personal"].put(NAME, broken, 0)
    etag = (await personal_app.call("nc_calendar_get_event", event_id=ID)).etag

    with pytest.raises(errors.InvalidName, match="TRIGGER MUST appear exactly once in a VALARM component"):
        await personal_app.call("nc_calendar_update_event", event_id=ID, etag=etag, title="x")


async def test_an_object_without_an_etag_is_shown_without_one_and_left_alone() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.method == "GET"
        return httpx2.Response(200, stream=httpx2.ByteStream(DEMO.encode()))

    account = account_over(answer)
    found = await call(account, "nc_calendar_get_event", event_id=ID)

    assert found.etag is None
    with pytest.raises(errors.ServerFault, match=r"named no version .* read it again"):
        await call(account, "nc_calendar_update_event", event_id=ID, etag="e", title="x")


class _LongTrash(httpx2.AsyncByteStream):
    """A trash of 20 objects; in each, one emoji makes Python take four bytes a letter."""

    text = DEMO.replace("Demo", "\N{PARTY POPPER}" + "A" * 500_000)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        names = 'xmlns:d="DAV:" xmlns:cal="urn:ietf:params:xml:ns:caldav" xmlns:x="http://nextcloud.com/ns"'
        yield f'<?xml version="1.0"?><d:multistatus {names}>'.encode()
        for number in range(20):
            yield (
                f"<d:response><d:href>/remote.php/dav/calendars/alice/trashbin/objects/{number}.ics</d:href>"
                f"<d:propstat><d:prop><d:getetag>&quot;e&quot;</d:getetag><x:calendar-uri>personal</x:calendar-uri>"
                f"<x:deleted-at>2026-11-{number + 1:02}T10:00:00Z</x:deleted-at>"
                f"<cal:calendar-data>{self.text}</cal:calendar-data></d:prop>"
                "<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
            ).encode()
        yield b"</d:multistatus>"


async def test_of_a_trash_of_many_megabytes_one_object_is_held_at_a_time() -> None:
    """8 looks at once into a trash of 30 MB took 310 MB, and one look at objects with an emoji 140 MB."""
    trash = CalendarTrash(http_over(lambda _: httpx2.Response(207, stream=_LongTrash())))
    tracemalloc.start()
    try:
        newest = await trash.newest(lambda each: each.etag == "e")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert newest is not None
    assert (newest.name, newest.uid) == ("19.ics", "demo-1@example.test")
    assert peak < 6 * sys.getsizeof(_LongTrash.text)
