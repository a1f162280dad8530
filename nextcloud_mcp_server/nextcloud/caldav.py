"""Calendars and the objects in them over CalDAV (RFC 4791), as texts: what they say is read elsewhere."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav, entries, troubles
from nextcloud_mcp_server.nextcloud import etag as etags
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.multistatus import DavResponse

#: What Nextcloud takes unless its administrator says otherwise (`event_size_limit`).
MAX_OBJECT_BYTES: Final = 10_485_760
_MAX_RESPONSE_BYTES: Final = 2 * MAX_OBJECT_BYTES

_CALENDAR: Final = (
    "d:displayname", "d:resourcetype", "cal:supported-calendar-component-set", "cal:calendar-description",
    "oc:owner-principal", "oc:read-only", "d:current-user-privilege-set",
)  # fmt: skip
_OBJECT: Final = "<d:getetag/><cal:calendar-data/>"
#: Shows what is subscribed to as a calendar with its events, not as a mere address (Nextcloud's own header).
_SUBSCRIBED: Final = {"X-NC-CalDAV-Webcal-Caching": "On"}
_ICS: Final = {"Content-Type": "text/calendar; charset=utf-8", **_SUBSCRIBED}
_WRITING: Final = ("d:write", "d:write-content", "d:all")
_PRINCIPALS: Final = ("principals/users/", "principals/federated-users/")

NO_CALENDAR: Final = (
    "There is no such calendar or task list. nc_calendar_list_calendars names the ones there are; "
    "an event_id or a task_id begins with the one that it is in."
)
_NO_OBJECT: Final = (
    "It is not there, or it belongs to someone else. "
    "Find it with nc_calendar_list_events, or a task with nc_tasks_list_tasks."
)
_READ_ONLY: Final = (
    "This calendar cannot be written to: it is shared read-only, subscribed to, or made by Nextcloud itself. "
    "nc_calendar_list_calendars says which can."
)


@dataclass(frozen=True, slots=True)
class Calendar:
    """One calendar; `id` is its name in addresses, `owner` somebody else's uid, `kinds` such as VEVENT."""

    id: str
    name: str
    description: str
    owner: str
    writable: bool
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Stored:
    """One calendar object: `id` is its calendar and its name there, which need not be its UID.

    `etag` is empty where it was stored and could not be looked at afterwards.
    """

    id: str
    etag: str
    text: str

    @property
    def calendar(self) -> str:
        """The calendar it is in."""
        return self.id.partition("/")[0]


class CalDav:
    """Fetches and stores one person's calendar objects."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http
        # The uid, never the login name: addresses are made of it.
        self._home = dav.Tree.of("calendars", http.uid)
        self._principal = dav.Tree(("principals", *dav.Tree.of("users", http.uid).root))

    async def calendars(self) -> list[Calendar]:
        """Fetch the calendars: own, shared and subscribed ones; not the trash nor the boxes for invitations."""
        body = dav.propfind(_CALENDAR)
        return [
            _calendar(segments[0], response, self._http.uid)
            async for segments, response in self._ask("PROPFIND", (), body, depth="1")
            if len(segments) == 1 and response.has_inner("d:resourcetype", "cal:calendar")
        ]

    async def objects(
        self, calendar: str, kind: str, *, low: datetime | None = None, high: datetime | None = None
    ) -> list[Stored]:
        """Fetch the objects of one kind, or those that take place in a range; what recurs comes unexpanded.

        Raises:
            NotFound: No such calendar.
        """
        body = _query(kind, low, high)
        found = self._ask("REPORT", _calendar_segments(calendar), body, depth="1")
        return [
            Stored("/".join(segments), etags.normalise(response.text("d:getetag")), text)
            async for segments, response in found
            if len(segments) == len(("calendar", "object")) and (text := response.text("cal:calendar-data"))
        ]

    async def get(self, object_id: str) -> Stored:
        """Fetch one object.

        Raises:
            NotFound: It is not there, or belongs to somebody else.
        """
        response = await self._http.request(
            "GET",
            self._home.url(segments_of(object_id)),
            headers=_SUBSCRIBED,
            max_bytes=MAX_OBJECT_BYTES,
            sentences={404: _NO_OBJECT},
        )
        text = response.content.decode(errors="replace")
        return Stored(object_id, etags.of(response.headers) or "", text)

    async def create(self, calendar: str, text: str) -> Stored:
        """Store a new object; one request more where Nextcloud tells no etag, because it changed the text.

        Raises:
            Forbidden: The calendar is read-only.
            NotFound: No such calendar.
        """
        object_id = "/".join((*_calendar_segments(calendar), f"{uuid4()}.ics"))
        return await self._put(object_id, text, {"If-None-Match": "*"}, missing=NO_CALENDAR)

    async def replace(self, stored: Stored, text: str) -> Stored:
        """Store another text in an object's place, as `create`.

        Raises:
            EtagMismatch: It was changed since it was read; nothing was written.
            Forbidden: The calendar is read-only.
        """
        return await self._put(stored.id, text, {"If-Match": etags.quote(stored.etag)}, missing=_NO_OBJECT)

    async def delete(self, object_id: str, *, if_match: str) -> None:
        """Move an object to the calendars' trash.

        Raises:
            EtagMismatch: It was changed since it was read; it is still there.
            Forbidden: The calendar is read-only.
        """
        await self._http.request(
            "DELETE",
            self._home.url(segments_of(object_id)),
            headers={"If-Match": etags.quote(if_match), **_SUBSCRIBED},
            sentences={403: _READ_ONLY, 404: _NO_OBJECT},
        )

    async def addresses(self) -> list[str]:
        """Fetch the addresses under which the person is invited: `mailto:` ones first."""
        found = entries.ask(
            self._http,
            "PROPFIND",
            self._principal.url(),
            tree=self._principal,
            body=dav.propfind(["cal:calendar-user-address-set"]),
            headers={"Depth": "0"},
        )
        listed: list[str] = []
        async with aclosing(found):
            async for some in found:
                for _, response in some:
                    listed += response.inner_texts("cal:calendar-user-address-set", "d:href")
        return sorted(listed, key=lambda address: not address.lower().startswith("mailto:"))

    async def _put(self, object_id: str, text: str, condition: dict[str, str], *, missing: str) -> Stored:
        data = text.encode()
        if len(data) > MAX_OBJECT_BYTES:
            raise errors.InvalidInput(f"It would be larger than {MAX_OBJECT_BYTES:,} bytes: shorten it.")
        response = await self._http.request(
            "PUT",
            self._home.url(segments_of(object_id)),
            content=data,
            headers={**_ICS, **condition},
            sentences={403: _READ_ONLY, 404: missing},
        )
        etag = etags.of(response.headers)
        # Invitations and repairs change the text while it is stored, and then no etag comes back.
        if etag is not None:
            return Stored(object_id, etag, text)
        try:
            return await self.get(object_id)
        except troubles.NOT_SEEN:
            # It is stored: an error would make it be stored once more, and invitations be sent twice.
            return Stored(object_id, "", text)

    async def _ask(
        self, method: str, segments: dav.Segments, body: bytes, *, depth: str
    ) -> AsyncGenerator[tuple[dav.Segments, DavResponse]]:
        found = entries.ask(
            self._http,
            method,
            self._home.url(segments),
            tree=self._home,
            body=body,
            headers={"Depth": depth, **_SUBSCRIBED},
            sentences={404: NO_CALENDAR},
            longest=_MAX_RESPONSE_BYTES,
        )
        async with aclosing(found):
            async for some in found:
                for each in some:
                    yield each


def segments_of(object_id: str) -> dav.Segments:
    """Check the id of an object: its calendar and its name, with a slash between them.

    Raises:
        NotFound: It cannot be one.
    """
    try:
        segments = dav.split(object_id)
    except errors.InvalidInput:
        segments = ()
    if len(segments) != len(("calendar", "object")) or "/".join(segments) != object_id:
        raise errors.NotFound(
            "That is no id of an event or task: pass on, unchanged, an event_id of nc_calendar_list_events "
            "or a task_id of nc_tasks_list_tasks."
        )
    return segments


def _calendar_segments(calendar: str) -> dav.Segments:
    try:
        segments = dav.split(calendar)
    except errors.InvalidInput:
        segments = ()
    if len(segments) != 1 or segments[0] != calendar:
        raise errors.NotFound(NO_CALENDAR)
    return segments


def _calendar(name: str, response: DavResponse, uid: str) -> Calendar:
    owner = response.text("oc:owner-principal").strip("/")
    for start in _PRINCIPALS:
        owner = owner.removeprefix(start)
    writable = any(response.has_inner("d:current-user-privilege-set", right) for right in _WRITING)
    return Calendar(
        id=name,
        name=response.text("d:displayname") or name,
        description=response.text("cal:calendar-description"),
        owner="" if owner == uid else owner,
        writable=writable and response.text("oc:read-only") != "1",
        kinds=frozenset(response.inner_texts("cal:supported-calendar-component-set", "cal:comp")),
    )


def _query(kind: str, low: datetime | None, high: datetime | None) -> bytes:
    between = ""
    if low is not None and high is not None:
        start, end = (f"{each.astimezone(UTC):%Y%m%dT%H%M%SZ}".rjust(16, "0") for each in (low, high))
        between = f'<cal:time-range start="{start}" end="{end}"/>'
    return (
        f'<?xml version="1.0"?><cal:calendar-query {dav.DECLARED}><d:prop>{_OBJECT}</d:prop>'
        f'<cal:filter><cal:comp-filter name="VCALENDAR"><cal:comp-filter name="{kind}">{between}'
        "</cal:comp-filter></cal:comp-filter></cal:filter></cal:calendar-query>"
    ).encode()
