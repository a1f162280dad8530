"""Measures how long a user waits, compared with the slowest single request, with added latency.

Every request takes 80 ms, as at a real Nextcloud, where PHP starts anew for each (20 to 200 ms). An event costs more
than nothing, because its text is parsed there, a note more than its id, and of twenty search providers the slowest
takes five times as long as the fastest. What is compared runs in one process and one run, so the ratios hold though
the milliseconds are made up. Calendars are answered from memory after the first time: the sandbox shares this
processor, while a Nextcloud has its own and answers several requests at once.
"""

import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import anyio
import httpx2
from pydantic import SecretStr
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar
from nextcloud_mcp_server.sandbox.serve import serving
from tests.dav_fakes import call
from tests.load.year import ZONE

REQUEST_SECONDS: Final = 0.08
#: A real server took 30 ms for each of 303 notes when its machine was busy.
NOTE_SECONDS: Final = 0.01
#: A REPORT parses what may take place in its range (sabre/vobject).
EVENT_SECONDS: Final = 0.001
#: The numbers of single events in five months and of series, in the user's own calendar, and in each of the others.
EVENTS: Final = ((150, 20), (25, 5))
NOTES: Final = 303
PROVIDERS: Final = 20
CALENDARS: Final = 8
FILES: Final = 100
ROUNDS: Final = 7
_USER: Final = "alice"
_SEARCH: Final = "/ocs/v2.php/search/providers"
_NOTES: Final = "/index.php/apps/notes/api/v1/notes"
_PROPFIND: Final = (
    '<d:propfind xmlns:d="DAV:"><d:prop><d:resourcetype/><d:getetag/><d:getcontentlength/></d:prop>'
    "</d:propfind>"
)
_REPORT: Final = (
    '<c:calendar-query xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:prop><d:getetag/>'
    '<c:calendar-data/></d:prop><c:filter><c:comp-filter name="VCALENDAR"><c:comp-filter name="VEVENT">'
    '<c:time-range start="20261101T000000Z" end="20261201T000000Z"/></c:comp-filter></c:comp-filter></c:filter>'
    "</c:calendar-query>"
)


@dataclass(frozen=True, slots=True)
class Felt:
    """Milliseconds of this server and of what it is compared with."""

    name: str
    limit: float
    beside: str
    ours: float
    other: float


class Clock:
    """The clock of a Nextcloud, initially an hour ago."""

    behind = timedelta(hours=1)

    def __call__(self) -> datetime:
        """Return the time."""
        return datetime.now(UTC) - self.behind


class Slow:
    """A sandbox with latency, and as many search providers as a real Nextcloud."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._inner: ASGIApp = sandbox.app
        self._given: dict[tuple[str, bytes], list[Message]] = {}

    @property
    def app(self) -> ASGIApp:
        """Return the application."""
        return self

    def served_at(self, origin: str) -> str:
        """Ignore the address."""
        return self._sandbox.served_at(origin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request after a delay."""
        path = str(scope.get("path", ""))
        await anyio.sleep(REQUEST_SECONDS)
        if path.startswith(_SEARCH):
            await _search(path.removeprefix(_SEARCH).strip("/").partition("/")[0], send)
        elif path.endswith("/notes") and scope.get("method") == "GET":
            await self._inner(scope, receive, _rate_limited(send, _notes_of))
        elif scope.get("method") == "REPORT":
            await self._again(scope, receive, _rate_limited(send, _events_of))
        else:
            await self._inner(scope, receive, send)

    async def _again(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a repeated request as before."""
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        given = self._given.setdefault((str(scope["path"]), body), [])
        if not given:

            async def read() -> Message:
                return {"type": "http.request", "body": body, "more_body": False}

            async def keep(answer: Message) -> None:
                given.append(answer)

            await self._inner(scope, read, keep)
        for answer in given:
            await send(answer)


def provider_seconds(number: int) -> float:
    """Return the additional time of a provider: from nothing to four times a request."""
    return REQUEST_SECONDS * 4 * number / (PROVIDERS - 1)


async def _search(name: str, send: Send) -> None:
    data: object = [{"id": f"p{number}", "name": f"Provider {number}"} for number in range(PROVIDERS)]
    if name:
        await anyio.sleep(provider_seconds(int(name[1:])))
        data = {"isPaginated": False, "cursor": None, "entries": [{"title": name, "resourceUrl": f"/{name}"}]}
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"ocs": {"data": data}}).encode()})


def _rate_limited(send: Send, seconds: Callable[[bytes], float]) -> Send:
    """Delay a body for as long as Nextcloud takes for its content."""

    async def paced(message: Message) -> None:
        if body := message.get("body"):
            await anyio.sleep(seconds(body))
        await send(message)

    return paced


def _notes_of(body: bytes) -> float:
    """Return the time for each complete note: Nextcloud opens its file, and looks for its shares."""
    return NOTE_SECONDS * sum("title" in note for note in json.loads(body))


def _events_of(body: bytes) -> float:
    return EVENT_SECONDS * body.count(b"BEGIN:VCALENDAR")


async def felt() -> list[Felt]:
    """Run all measurements."""
    clock = Clock()
    sandbox = Sandbox.demo(clock=clock)
    files = sandbox.state.users[_USER].files
    files.make_folder("/Notes/Diary", parents=True)
    for number in range(NOTES):
        files.put(f"/Notes/Diary/Day {number}.md", f"Day {number}: nothing of note, {'again ' * 40}".encode())
    files.make_folder("/Documents/Many", parents=True)
    for number in range(FILES):
        files.put(f"/Documents/Many/{number}.txt", b"text")
    auth = (_USER, _USER)
    async with serving(Slow(sandbox)) as url:
        pool = open_pool(ca_bundle=None, user_agent="bench")
        async with (
            pool,
            httpx2.AsyncClient(base_url=url, auth=auth, headers={"OCS-APIRequest": "true"}) as raw,
        ):
            # The Notes app has seen these notes before, as it has those of a user who writes some every day.
            (await raw.get(_NOTES, params={"exclude": "content"})).raise_for_status()
            clock.behind = timedelta()
            nextcloud = Nextcloud(NextcloudUrl.parse(url), pool)
            account = nextcloud.account(BasicCredential(_USER, SecretStr(_USER)), uid=_USER)
            return [
                *await _events(nextcloud, sandbox, raw),
                await _folder(account, raw),
                await _providers(account, raw),
                await _notes(account),
            ]


async def _events(nextcloud: Nextcloud, sandbox: Sandbox, raw: httpx2.AsyncClient) -> list[Felt]:
    calendars = sandbox.state.users[_USER].calendars
    for number in range(CALENDARS):
        calendars[f"c{number}"] = StoredCalendar(f"Calendar {number}")
    for number, name in enumerate(["personal", *(f"c{number}" for number in range(CALENDARS))]):
        for title, text in _texts(*EVENTS[min(number, 1)]):
            calendars[name].put(f"{title}.ics", text, 0)
    expected: set[int] = set()

    async def list_month(start: str, end: str) -> None:
        account = nextcloud.account(BasicCredential(_USER, SecretStr(_USER)), uid=_USER)
        expected.add((await call(account, "nc_calendar_list_events", start=start, end=end)).total)

    async def first() -> None:
        nextcloud.forget(_USER)
        # As in any conversation, there was an earlier request: the first one with a credential is sent alone.
        await nextcloud.account(BasicCredential(_USER, SecretStr(_USER)), uid=_USER).user.get()

    async def other() -> None:
        await list_month("2026-12-01", "2026-12-31")

    async def month() -> None:
        await list_month("2026-11-01", "2026-11-30")

    async def one() -> None:
        headers = {"Depth": "1", "Content-Type": "application/xml"}
        where = f"/remote.php/dav/calendars/{_USER}/personal/"
        (await raw.request("REPORT", where, headers=headers, content=_REPORT)).raise_for_status()

    slowest = await _median(one)
    name, beside = f"list a month of events in {CALENDARS + 1} calendars", "the slowest raw request"
    found = [
        # The names of the calendars are unknown, so their events cannot be requested in parallel with the list.
        Felt(f"{name}, the first", 2.5, beside, await _median(month, before=first), slowest),
        Felt(name, 1.5, beside, await _median(month, before=other), slowest),
        Felt(f"{name}, again", 1.5, beside, await _median(month), slowest),
    ]
    if min(expected) < EVENTS[0][0] / 5:
        raise AssertionError(f"a month had {min(expected)} events only")
    return found


def _texts(events: int, series: int) -> Iterator[tuple[str, str]]:
    """Yield events of five months as Nextcloud's Calendar app writes them, with attendees."""
    people = "".join(f"ATTENDEE;CN=P{n};PARTSTAT=ACCEPTED:mailto:p{n}@example.test\r\n" for n in range(3))
    for number in range(events + series):
        day = date(2026, 9, 1) + timedelta(days=number % events * 150 // events)
        rule = "RRULE:FREQ=WEEKLY\r\n" if number >= events else ""
        yield (
            f"e{number}",
            (
                f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{ZONE}BEGIN:VEVENT\r\nUID:e{number}\r\nDTSTAMP:20260101T000000Z\r\n"
                f"DTSTART;TZID=Europe/Berlin:{day:%Y%m%d}T100000\r\nDTEND;TZID=Europe/Berlin:{day:%Y%m%d}T110000\r\n"
                f"{rule}SUMMARY:Event {number}\r\nDESCRIPTION:{'Something to talk about. ' * 8}\r\n{people}"
                "END:VEVENT\r\nEND:VCALENDAR\r\n"
            ),
        )


async def _folder(account: Account, raw: httpx2.AsyncClient) -> Felt:
    async def ours() -> None:
        await call(account, "nc_files_list_folder", path="Documents/Many")

    async def one() -> None:
        where = f"/remote.php/dav/files/{_USER}/Documents/Many"
        headers = {"Depth": "1", "Content-Type": "application/xml"}
        (await raw.request("PROPFIND", where, headers=headers, content=_PROPFIND)).raise_for_status()

    return Felt(f"list a folder of {FILES}", 1.5, "one raw PROPFIND", await _median(ours), await _median(one))


async def _providers(account: Account, raw: httpx2.AsyncClient) -> Felt:
    async def ours() -> None:
        found = await call(account, "nc_search_find_items", query="x")
        if len(found.groups) != PROVIDERS:
            raise AssertionError(f"{len(found.groups)} of {PROVIDERS} providers answered")

    async def slowest() -> None:
        await raw.get(f"{_SEARCH}/p{PROVIDERS - 1}/search", params={"term": "x", "format": "json"})

    name = f"search {PROVIDERS} providers"
    return Felt(name, 1.3, "the slowest provider", await _median(ours), await _median(slowest))


async def _notes(account: Account) -> Felt:
    async def ours() -> None:
        found = await call(account, "nc_notes_search_notes", query="nothing of note")
        if not found.total:
            raise AssertionError("nothing was found")

    first = await _milliseconds(ours)
    return Felt(f"search {NOTES} notes again", 0.2, "the first search", await _median(ours), first)


async def _median(
    play: Callable[[], Awaitable[Any]], *, before: Callable[[], Awaitable[Any]] | None = None
) -> float:
    """Run `play` once as warm-up, then some times, and return the median; `before` is not counted."""
    spent: list[float] = []
    for _ in range(ROUNDS + 1):
        if before is not None:
            await before()
        spent.append(await _milliseconds(play))
    return statistics.median(spent[1:])


async def _milliseconds(play: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await play()
    return (time.perf_counter() - began) * 1000
