"""Valid arguments for the tools, for the tests of every tool."""

from typing import Any

from nextcloud_mcp_server.nextcloud.account import Account
from tests.dav_fakes import call


async def usual(_: Account) -> dict[str, dict[str, Any]]:
    event, days = {"event_id": "personal/standup.ics"}, {"start": "2026-11-20", "end": "2026-12-20"}
    return {
        "nc_calendar_list_events": days,
        "nc_calendar_find_free_time": days,
        "nc_calendar_get_event": event,
        "nc_calendar_create_event": {"title": "x", "start": "2026-12-01"},
        "nc_calendar_update_event": {**event, "etag": "e", "title": "x"},
        "nc_calendar_delete_event": {**event, "etag": "e"},
    }


async def working(nc: Account, _: str, given: dict[str, Any]) -> dict[str, Any]:
    if "etag" not in given:
        return {}
    return {"etag": (await call(nc, "nc_calendar_get_event", event_id=given["event_id"])).etag}
