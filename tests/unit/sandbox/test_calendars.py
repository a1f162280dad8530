import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox

HOME = "/remote.php/dav/calendars/alice"
EVENT = (
    "BEGIN:VCALENDAR\r\nBEGIN:VTIMEZONE\r\nBEGIN:STANDARD\r\nDTSTART:19700101T000000\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n"
    "BEGIN:VEVENT\r\nUID:1\r\nDTSTART:20261201T100000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)


async def send(sandbox: Sandbox, method: str, path: str, body: str = "", **headers: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(app=sandbox.app)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://localhost", auth=("alice", "alice")
    ) as client:
        return await client.request(method, path, content=body.encode(), headers=sent)


@pytest.fixture
async def sandbox() -> Sandbox:
    made = Sandbox.demo()
    await send(made, "PUT", f"{HOME}/personal/a.ics", EVENT)
    return made


async def test_a_range_finds_what_takes_place_in_it_zones_aside(sandbox: Sandbox) -> None:
    query = (
        '<c:calendar-query xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:prop><d:getetag/></d:prop>'
        '<c:filter><c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT">'
        '<c:time-range start="{}" end="{}"/></c:comp-filter></c:comp-filter></c:filter></c:calendar-query>'
    )

    inside = await send(
        sandbox, "REPORT", f"{HOME}/personal", query.format("20261201T090000Z", "20261202T000000Z")
    )
    outside = await send(
        sandbox, "REPORT", f"{HOME}/personal", query.format("20261202T090000Z", "20261203T000000Z")
    )
    whole = query.replace("<c:filter>", "<c:other>").replace("</c:filter>", "</c:other>")

    assert "a.ics" in inside.text
    assert "a.ics" not in outside.text
    assert "a.ics" in (await send(sandbox, "REPORT", f"{HOME}/personal", whole)).text


async def test_properties_are_found_at_every_depth(sandbox: Sandbox) -> None:
    home = await send(sandbox, "PROPFIND", f"{HOME}/", Depth="0")
    calendar = await send(sandbox, "PROPFIND", f"{HOME}/personal", Depth="1")
    one = await send(sandbox, "PROPFIND", f"{HOME}/personal/a.ics", Depth="0")
    missing = await send(sandbox, "PROPFIND", f"{HOME}/personal/b.ics", Depth="0")

    assert home.text.count("<d:response>") == 1
    assert "a.ics" in calendar.text
    assert "component=vevent" in one.text
    assert missing.status_code == 404


async def test_a_read_only_calendar_stays(sandbox: Sandbox) -> None:
    bobs = f"{HOME}/office_shared_by_bob"

    assert (await send(sandbox, "PUT", f"{HOME}/contact_birthdays/a.ics", EVENT)).status_code == 403
    assert (await send(sandbox, "DELETE", f"{bobs}/move.ics")).status_code == 404
    assert (await send(sandbox, "GET", f"{bobs}/move.ics", If_None_Match="*")).status_code == 304
    assert (await send(sandbox, "LOCK", f"{HOME}/personal/a.ics")).status_code == 501


async def test_calendars_are_made_and_deleted_for_good(sandbox: Sandbox) -> None:
    make = '<c:mkcalendar xmlns:c="urn:ietf:params:xml:ns:caldav"/>'

    assert (await send(sandbox, "MKCALENDAR", f"{HOME}/new", make)).status_code == 201
    assert (await send(sandbox, "DELETE", f"{HOME}/new", X_NC_CalDAV_No_Trashbin="1")).status_code == 204
    assert (await send(sandbox, "MKCALENDAR", f"{HOME}/new", make)).status_code == 201
    assert "MKCOL" not in (await send(sandbox, "OPTIONS", f"{HOME}/new")).headers["Allow"]
