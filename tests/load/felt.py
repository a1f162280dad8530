"""How long a person waits, beside the slowest single request that the answer needs: a sandbox with injected latency.

Every request takes a moment, as at a real Nextcloud, where PHP starts anew for each; a note costs more than its
id, and of twenty search providers the slowest takes five times as long as the fastest. What is compared runs
in one process and one run, so the ratios hold though the milliseconds are made up.
"""

import json
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
from nextcloud_mcp_server.sandbox.serve import serving
from tests.dav_fakes import call

REQUEST_SECONDS: Final = 0.08
#: Of 303 notes a real one took 30 ms each when its machine was busy.
NOTE_SECONDS: Final = 0.01
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
    """Milliseconds of ours beside those of what it is compared with."""

    name: str
    limit: float
    beside: str
    ours: float
    other: float


class Clock:
    """The time of a Nextcloud, an hour ago at first."""

    behind = timedelta(hours=1)

    def __call__(self) -> datetime:
        """Tell it."""
        return datetime.now(UTC) - self.behind


class Slow:
    """A sandbox whose requests take their time, with as many search providers as a real Nextcloud has."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._inner: ASGIApp = sandbox.app

    @property
    def app(self) -> ASGIApp:
        """Give what answers."""
        return self

    def served_at(self, origin: str) -> str:
        """Hear where it is served."""
        return self._sandbox.served_at(origin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, late."""
        path = str(scope.get("path", ""))
        await anyio.sleep(REQUEST_SECONDS)
        if path.startswith(_SEARCH):
            await _search(path.removeprefix(_SEARCH).strip("/").partition("/")[0], send)
        elif path.endswith("/notes") and scope.get("method") == "GET":
            await self._inner(scope, receive, _paced(send))
        else:
            await self._inner(scope, receive, send)


def provider_seconds(number: int) -> float:
    """Say how long a provider takes besides: from nothing to four times a request."""
    return REQUEST_SECONDS * 4 * number / (PROVIDERS - 1)


async def _search(name: str, send: Send) -> None:
    data: object = [{"id": f"p{number}", "name": f"Provider {number}"} for number in range(PROVIDERS)]
    if name:
        await anyio.sleep(provider_seconds(int(name[1:])))
        data = {"isPaginated": False, "cursor": None, "entries": [{"title": name, "resourceUrl": f"/{name}"}]}
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"ocs": {"data": data}}).encode()})


def _paced(send: Send) -> Send:
    """Wait for each note that is answered whole: Nextcloud opens its file, and looks for its shares."""

    async def paced(message: Message) -> None:
        if body := message.get("body"):
            await anyio.sleep(NOTE_SECONDS * sum("title" in note for note in json.loads(body)))
        await send(message)

    return paced


async def felt() -> list[Felt]:
    """Measure all of it."""
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
            # The Notes app has seen these notes before, as it has those of a person who writes some every day.
            (await raw.get(_NOTES, params={"exclude": "content"})).raise_for_status()
            clock.behind = timedelta()
            nextcloud = Nextcloud(NextcloudUrl.parse(url), pool)
            account = nextcloud.account(BasicCredential(_USER, SecretStr(_USER)), uid=_USER)
            return [
                await _events(account, raw),
                await _folder(account, raw),
                await _providers(account, raw),
                await _notes(account),
            ]


async def _events(account: Account, raw: httpx2.AsyncClient) -> Felt:
    home = f"/remote.php/dav/calendars/{_USER}"
    for number in range(CALENDARS):
        await raw.request("MKCALENDAR", f"{home}/c{number}/")

    async def ours() -> None:
        await call(account, "nc_calendar_list_events", start="2026-11-01", end="2026-12-01")

    async def one() -> None:
        headers = {"Depth": "1", "Content-Type": "application/xml"}
        (
            await raw.request("REPORT", f"{home}/personal/", headers=headers, content=_REPORT)
        ).raise_for_status()

    name = f"list a month of events in {CALENDARS + 1} calendars"
    return Felt(name, 1.5, "the slowest raw request", await _median(ours), await _median(one))


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


async def _median(play: Callable[[], Awaitable[Any]]) -> float:
    """Play it once for what is only done once, such as to connect, and then some times."""
    await play()
    return statistics.median([await _milliseconds(play) for _ in range(ROUNDS)])


async def _milliseconds(play: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await play()
    return (time.perf_counter() - began) * 1000
