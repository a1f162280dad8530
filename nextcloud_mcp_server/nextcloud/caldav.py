"""Reads and writes calendars and calendar objects over CalDAV (RFC 4791); does not parse the objects."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape
from typing import Final
from uuid import uuid4

import httpx2

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import calendar_errors, dav, entries, file_errors
from nextcloud_mcp_server.nextcloud import etag as etags
from nextcloud_mcp_server.nextcloud.calendar_errors import NO_CALENDAR, NO_OBJECT
from nextcloud_mcp_server.nextcloud.calendar_trash import CalendarTrash, Trashed
from nextcloud_mcp_server.nextcloud.concurrency_limiter import REQUESTS_AT_ONCE, WIDE_AT_ONCE
from nextcloud_mcp_server.nextcloud.error_mapping import CHANGED
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.multistatus import DavResponse

#: Nextcloud's default limit (`event_size_limit`).
MAX_OBJECT_BYTES: Final = 10_485_760
_MAX_RESPONSE_BYTES: Final = 2 * MAX_OBJECT_BYTES

_CALENDAR: Final = (
    "d:displayname", "d:resourcetype", "cal:supported-calendar-component-set", "cal:calendar-description",
    "oc:owner-principal", "oc:read-only", "d:current-user-privilege-set", "cs:getctag",
)  # fmt: skip
#: An object's id has its calendar and its name.
_OBJECT_DEPTH: Final = 2
_OBJECT: Final = "<d:getetag/><cal:calendar-data/>"
#: Nextcloud's own header: list subscriptions as calendars with events instead of as mere addresses.
_SUBSCRIBED: Final = {"X-NC-CalDAV-Webcal-Caching": "On"}
_ICS: Final = {"Content-Type": "text/calendar; charset=utf-8", **_SUBSCRIBED}
_PRINCIPALS: Final = ("principals/users/", "principals/federated-users/")


@dataclass(frozen=True, slots=True)
class Calendar:
    """One calendar; `id` is its name in URLs.

    `owner` is another user's uid; `kinds` are component names such as VEVENT. `state` (`getctag`) changes with every
    object in it; empty where Nextcloud sends none, as for subscriptions.
    """

    id: str
    name: str
    description: str
    owner: str
    writable: bool
    kinds: frozenset[str]
    state: str = ""

    @property
    def app(self) -> str:
        """The app that generates the calendar, such as `deck`; empty for a calendar of users."""
        return calendar_errors.app_of(self.id)


@dataclass(frozen=True, slots=True)
class Stored:
    """One calendar object: `id` is its calendar and its name there, which may differ from its UID.

    `etag` is None where Nextcloud sent none, and where the object was stored but could not be fetched afterwards.
    `rewritten` says that Nextcloud stored another text than the one sent, as it does when it sends invitations.
    """

    id: str
    etag: str | None
    text: str
    rewritten: bool = False

    @property
    def calendar(self) -> str:
        """The calendar it is in."""
        return self.id.partition("/")[0]


class CalDav:
    """Fetches and stores one user's calendar objects; `wide` is for many parallel requests."""

    def __init__(self, http: NextcloudHttp, wide: NextcloudHttp | None = None) -> None:
        self._http = http
        self._wide = wide or http
        # The uid, never the login name: URLs contain the uid.
        self._home = dav.Tree.of("calendars", http.uid)
        self._principal = dav.Tree(("principals", *dav.Tree.of("users", http.uid).root))
        self._trash = CalendarTrash(http)

    @property
    def room(self) -> int:
        """Count the requests, most of them `wide`, that may start now beside another one."""
        return WIDE_AT_ONCE if self._wide.just_accepted else REQUESTS_AT_ONCE - 1

    async def calendars(self) -> list[Calendar]:
        """Fetch the own, shared and subscribed calendars, without the trash and the scheduling boxes."""
        async with self._ask("PROPFIND", (), dav.propfind(_CALENDAR)) as found:
            return [
                _calendar(segments[0], response, self._http.uid)
                async for segments, response in found
                if len(segments) == 1 and response.has_inner("d:resourcetype", "cal:calendar")
            ]

    async def objects(
        self,
        calendar: str,
        kind: str,
        *,
        low: datetime | None = None,
        high: datetime | None = None,
        uid: str | None = None,
        wide: bool = False,
        fits: Callable[[str], bool] = bool,
    ) -> list[Stored]:
        """Fetch objects of one kind: all, those in a time range, or the one with a UID.

        Recurring objects are not expanded. `wide` marks one of many parallel requests; these have a higher limit
        where Nextcloud has just accepted the credential. An object whose text does not fit is returned without it.

        Raises:
          NotFound: No such calendar.
        """
        body = _query(kind, low, high, uid)
        async with self._ask("REPORT", _calendar_segments(calendar), body, wide=wide) as found:
            return [
                Stored(
                    "/".join(segments), etags.parse(response.text("d:getetag")), text if fits(text) else ""
                )
                async for segments, response in found
                if len(segments) == _OBJECT_DEPTH and (text := response.text("cal:calendar-data"))
            ]

    async def get(self, object_id: str) -> Stored:
        """Fetch one object.

        Raises:
          NotFound: It does not exist, or belongs to another user.
        """
        response = await self._http.request(
            "GET",
            self._home.url(segments_of(object_id)),
            headers=_SUBSCRIBED,
            max_bytes=MAX_OBJECT_BYTES,
            sentences={404: NO_OBJECT},
        )
        text = response.content.decode(errors="replace")
        return Stored(object_id, etags.of(response.headers), text)

    async def current(self, object_id: str, if_match: str) -> Stored:
        """Fetch one object and check that its etag is still `if_match`.

        Raises:
          EtagMismatch: It was changed since it was read.
          Forbidden: It is a card of Deck.
          ServerFault: Nextcloud sent no etag.
        """
        calendar_errors.refuse_deck(object_id)
        stored = await self.get(object_id)
        if etags.normalise(if_match) != etags.required(stored.etag):
            raise errors.EtagMismatch(CHANGED, current_etag=stored.etag)
        return stored

    async def create(self, calendar: str, text: str) -> Stored:
        """Store a new object; sends a second request where Nextcloud changed the text and so sent no etag.

        Raises:
          Forbidden: The calendar is read-only.
          NotFound: No such calendar.
        """
        calendar_errors.refuse_deck(calendar)
        object_id = "/".join((*_calendar_segments(calendar), f"{uuid4()}.ics"))
        return await self._put(object_id, text, {"If-None-Match": "*"}, missing=NO_CALENDAR)

    async def replace(self, stored: Stored, text: str) -> Stored:
        """Replace the text of an object; like `create`, sometimes with a second request.

        Raises:
          EtagMismatch: It was changed since it was read; nothing was written.
          Forbidden: The calendar is read-only.
        """
        condition = {"If-Match": etags.quote(etags.required(stored.etag))}
        return await self._put(stored.id, text, condition, missing=NO_OBJECT)

    async def delete(self, stored: Stored) -> None:
        """Move an object to the calendar trash.

        Raises:
          EtagMismatch: It was changed since it was read; it still exists.
          Forbidden: The calendar is read-only.
          Conflict: An earlier copy of it is in the trash.
        """
        headers = {"If-Match": etags.quote(etags.required(stored.etag)), **_SUBSCRIBED}
        await self._write("DELETE", stored.id, stored.text, headers=headers, missing=NO_OBJECT)

    async def restore(self, object_id: str, kind: str, *, if_match: str) -> Stored:
        """Restore an object from the trash; four requests.

        `object_id` is the id it had before, or its id in the trash.

        Raises:
          NotFound: No object in the trash has this id and etag.
          AlreadyExists: Another object has taken its name.
        """
        trashed = await self._trashed(object_id, if_match)
        try:
            await self._trash.restore(trashed)
        except errors.NextcloudError as error:
            raise calendar_errors.worded(error) from None
        found = await self.objects(trashed.calendar, kind, uid=trashed.uid)
        if not found:
            raise errors.NotFound(
                "It was taken out of the trash and not found in its calendar. Look with nc_calendar_list_events or "
                "nc_tasks_list_tasks."
            )
        return found[0]

    async def addresses(self) -> list[str]:
        """Fetch the addresses by which the user is invited, `mailto:` ones first."""
        body, depth = dav.propfind(["cal:calendar-user-address-set"]), {"Depth": "0"}
        listed: list[str] = []
        async with entries.ask(self._http, "PROPFIND", self._principal, body=body, headers=depth) as found:
            async for _, response in found:
                listed += response.inner_texts("cal:calendar-user-address-set", "d:href")
        return sorted(listed, key=lambda address: not address.lower().startswith("mailto:"))

    async def _put(self, object_id: str, text: str, condition: dict[str, str], *, missing: str) -> Stored:
        if len(text.encode()) > MAX_OBJECT_BYTES:
            raise errors.InvalidInput(f"It would be larger than {MAX_OBJECT_BYTES:,} bytes: shorten it.")
        response = await self._write(
            "PUT", object_id, text, headers={**_ICS, **condition}, missing=missing, content=text.encode()
        )
        etag = etags.of(response.headers)
        # Scheduling and repairs change the text while Nextcloud stores it; then the response has no etag.
        if etag is not None:
            return Stored(object_id, etag, text)
        try:
            return replace(await self.get(object_id), rewritten=True)
        except file_errors.NOT_SEEN:
            # The object is stored. After an error the client would store it again and send invitations twice.
            return Stored(object_id, None, text)

    async def _write(
        self,
        method: str,
        object_id: str,
        text: str,
        *,
        headers: dict[str, str],
        missing: str,
        content: bytes | None = None,
    ) -> httpx2.Response:
        """Send a change of an object; word a refusal by its cause, which may take a second request."""
        url = self._home.url(segments_of(object_id))
        try:
            return await self._http.request(
                method, url, headers=headers, content=content, sentences={404: missing}
            )
        except errors.NextcloudError as error:
            if calendar_errors.is_uid_taken(error):
                raise await self._uid_taken(error, object_id, text) from None
            if calendar_errors.may_be_read_only(error):
                raise await self._denied(error, object_id.partition("/")[0]) from None
            raise calendar_errors.worded(error) from None

    async def _uid_taken(
        self, error: errors.NextcloudError, object_id: str, text: str
    ) -> errors.NextcloudError:
        """Return the error that names the object in the trash that has the same UID; looks it up."""
        calendar = object_id.partition("/")[0]
        try:
            newest = await self._trash.newest(
                lambda each: each.calendar == calendar, uid=await self._trash.uid_of(text)
            )
        except file_errors.NOT_SEEN:
            newest = None
        if newest is None:
            return calendar_errors.uid_taken(error, since="", id_="", etag=None)
        return calendar_errors.uid_taken(error, since=newest.since, id_=newest.id, etag=newest.etag)

    async def _denied(self, error: errors.NextcloudError, calendar: str) -> errors.NextcloudError:
        """Return the error that says why a calendar is read-only; looks up its owner and permissions."""
        try:
            found = next((each for each in await self.calendars() if each.id == calendar), None)
        except file_errors.NOT_SEEN:
            found = None
        if found is None or found.writable:
            return error
        return calendar_errors.read_only(calendar, found.owner)

    async def _trashed(self, object_id: str, if_match: str) -> Trashed:
        calendar, etag = segments_of(object_id)[0], etags.normalise(if_match)

        def matches(each: Trashed) -> bool:
            return each.etag == etag and (each.id == object_id or each.calendar == calendar)

        if (newest := await self._trash.newest(matches)) is not None:
            return newest
        raise errors.NotFound(
            "Nothing that was deleted from there has this etag: send the event_id or task_id and the etag that it had "
            "when it was deleted. What was deleted from a shared calendar, only its owner finds, in the trash of "
            "Nextcloud's Calendar app; after 30 days it is gone."
        )

    def _ask(
        self, method: str, segments: dav.Segments, body: bytes, *, wide: bool = False
    ) -> AbstractAsyncContextManager[AsyncGenerator[entries.Located]]:
        return entries.ask(
            self._wide if self._wide.just_accepted and wide else self._http,
            method,
            self._home,
            segments,
            body=body,
            headers={"Depth": "1", **_SUBSCRIBED},
            sentences={404: NO_CALENDAR},
            longest=_MAX_RESPONSE_BYTES,
        )


def segments_of(object_id: str) -> dav.Segments:
    """Split the id of an object, `calendar/name`, and check both parts.

    Raises:
      NotFound: It is not a valid id.
    """
    try:
        segments = dav.split(object_id)
    except errors.InvalidInput:
        segments = ()
    if len(segments) != _OBJECT_DEPTH or "/".join(segments) != object_id:
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
    return Calendar(
        id=name,
        name=response.text("d:displayname") or name,
        description=response.text("cal:calendar-description"),
        owner="" if owner == uid else owner,
        writable=response.is_writable,
        kinds=frozenset(response.inner_texts("cal:supported-calendar-component-set", "cal:comp")),
        state=response.text("cs:getctag"),
    )


def _query(kind: str, low: datetime | None, high: datetime | None, uid: str | None) -> bytes:
    between = ""
    if low is not None and high is not None:
        start, end = (f"{each.astimezone(UTC):%Y%m%dT%H%M%SZ}".rjust(16, "0") for each in (low, high))
        between = f'<cal:time-range start="{start}" end="{end}"/>'
    if uid is not None:
        match = f'<cal:text-match collation="i;octet">{escape(uid, quote=False)}</cal:text-match>'
        between = f'<cal:prop-filter name="UID">{match}</cal:prop-filter>'
    return (
        f'<?xml version="1.0"?><cal:calendar-query {dav.DECLARED}><d:prop>{_OBJECT}</d:prop>'
        f'<cal:filter><cal:comp-filter name="VCALENDAR"><cal:comp-filter name="{kind}">{between}'
        "</cal:comp-filter></cal:comp-filter></cal:filter></cal:calendar-query>"
    ).encode()
