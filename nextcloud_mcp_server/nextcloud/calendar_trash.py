"""Lists and restores the deleted objects of a user's calendars.

Not documented; read in `apps/dav/lib/CalDAV/Trashbin` of nextcloud/server. PROPFIND cannot list it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from nextcloud_mcp_server.formats.content_line import Pieces
from nextcloud_mcp_server.formats.ical import uid_of
from nextcloud_mcp_server.nextcloud import dav, entries
from nextcloud_mcp_server.nextcloud import etag as etags
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.multistatus import DavResponse

#: The name of the trash among the calendars; no calendar can have this name.
TRASH: Final = "trashbin"
_OBJECTS: Final = (TRASH, "objects")
#: Nextcloud restores an object that is moved here to its former calendar; the target name is ignored.
_RESTORE: Final = (TRASH, "restore", "file")
_LONGEST: Final = 20_971_520
_QUERY: Final = (
    f'<?xml version="1.0"?><cal:calendar-query {dav.DECLARED}><d:prop><d:getetag/><cal:calendar-data/>'
    "<trash:deleted-at/><trash:calendar-uri/></d:prop>"
    '<cal:filter><cal:comp-filter name="VCALENDAR"/></cal:filter></cal:calendar-query>'
).encode()


@dataclass(frozen=True)
class Trashed:
    """One deleted object: `name` is its name in the trash, `calendar` the one it was deleted from.

    It has no text: that may take tens of megabytes.
    """

    name: str
    calendar: str
    etag: str | None
    deleted_at: datetime | None
    uid: str = ""

    @property
    def id(self) -> str:
        """The id by which tools refer to it."""
        return f"{TRASH}/{self.name}"

    @property
    def since(self) -> str:
        """The time of deletion; empty where unknown."""
        return "" if self.deleted_at is None else f"{self.deleted_at:%Y-%m-%dT%H:%M:%SZ}"

    @property
    def age(self) -> float:
        """A sort key: later deletions have greater values."""
        return 0.0 if self.deleted_at is None else self.deleted_at.timestamp()


class CalendarTrash:
    """Reads the trash of one user's calendars."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http
        self._home = dav.Tree.of("calendars", http.uid)

    async def newest(self, matches: Callable[[Trashed], bool], *, uid: str | None = None) -> Trashed | None:
        """Return the last deleted object of the user's own calendars that matches, with its UID; None without one.

        `matches` does not know the UID. The objects are read one by one.
        """
        newest: Trashed | None = None
        depth = {"Depth": "1"}
        async with entries.ask(
            self._http, "REPORT", self._home, _OBJECTS, body=_QUERY, headers=depth, longest=_LONGEST
        ) as found:
            async for segments, response in found:
                if len(segments) != len(_OBJECTS) + 1:
                    continue
                trashed = _trashed(segments[-1], response)
                if matches(trashed) and (newest is None or trashed.age > newest.age):
                    its = await self.uid_of(response.text("cal:calendar-data"))
                    if uid in {None, its}:
                        newest = replace(trashed, uid=its)
        return newest

    async def uid_of(self, text: str) -> str:
        """Return the UID in the text of an object, "" if it cannot be read; a long text is read in a thread."""
        return await aside(partial(uid_of, text), uid=self._http.uid, size=Pieces.of(text).work)

    async def restore(self, trashed: Trashed) -> None:
        """Restore a deleted object to its former calendar.

        Raises:
          Forbidden: Another object has taken its name.
        """
        headers = {"Destination": f"{self._http.base}{self._home.url(_RESTORE)}"}
        await self._http.request("MOVE", self._home.url((*_OBJECTS, trashed.name)), headers=headers)


def _trashed(name: str, response: DavResponse) -> Trashed:
    return Trashed(
        name=name,
        calendar=response.text("trash:calendar-uri"),
        etag=etags.parse(response.text("d:getetag")),
        deleted_at=_moment(response.text("trash:deleted-at")),
    )


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
