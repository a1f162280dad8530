"""How many times a call waits for Nextcloud one after the other: that, not the number of requests, is what is felt."""

from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import pytest
from anyio.lowlevel import checkpoint
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import concurrency_limiter
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.concurrency_limiter import (
    ACCEPTED_SECONDS,
    REQUESTS_AT_ONCE,
    WIDE_AT_ONCE,
    ConcurrencyLimiter,
)
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.parallel import of_each
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.nextcloud.user_cache import UserCache, UserCaches
from nextcloud_mcp_server.sandbox.address_book import StoredBook
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar
from tests.dav_fakes import call

EVENT = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:{0}\r\nDTSTART:20261205T100000Z\r\nSUMMARY:{0}\r\n"
    "ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:alice@example.test\r\nORGANIZER:mailto:bob@example.test\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)
TASK = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VTODO\r\nUID:{0}\r\nSUMMARY:{0}\r\nEND:VTODO\r\nEND:VCALENDAR\r\n"
CARD = "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:{0}\r\nFN:{0}\r\nEND:VCARD\r\n"
MONTH = {"start": "2026-12-01", "end": "2026-12-31"}
#: Enough turns of the event loop for everything that is not waiting for an answer to be done.
_TURNS = 200


@dataclass
class Rounds(httpx2.AsyncBaseTransport):
    """Gives its answers to all requests that are under way together, and counts how often."""

    inner: httpx2.AsyncBaseTransport
    rounds: list[list[str]] = field(default_factory=list[list[str]])
    most: int = 0
    _waiting: list[anyio.Event] = field(default_factory=list[anyio.Event])
    _asked: list[str] = field(default_factory=list[str])

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer once nothing else asks any more."""
        event = anyio.Event()
        first = not self._waiting
        self._waiting.append(event)
        self._asked.append(f"{request.method} {request.url.path.rpartition('/dav/')[2]}")
        if first:
            for _ in range(_TURNS):
                await checkpoint()
            self.rounds.append(self._asked)
            self.most = max(self.most, len(self._waiting))
            waiting, self._waiting, self._asked = self._waiting, [], []
            for each in waiting:
                each.set()
        await event.wait()
        return await self.inner.handle_async_request(request)


class PersonalApp:
    """A sandbox whose alice has three calendars of events, two lists of tasks and three address books."""

    def __init__(self) -> None:
        self.sandbox = Sandbox()
        alice = self.sandbox.add_user("alice")
        alice.email = "alice@example.test"
        self.calendars, self.books = alice.calendars, alice.address_books
        for name in ("work", "club"):
            self.calendars[name] = StoredCalendar(name.title())
        for name in ("todo", "later"):
            self.calendars[name] = StoredCalendar(name.title(), kinds=("VTODO",))
            self.calendars[name].put("t.ics", TASK.format(name), 0)
        for name in ("personal", "work", "club"):
            self.calendars[name].put("e.ics", EVENT.format(name), 0)
        self.books["family"] = StoredBook("Family")
        self.books["family"].put("a.vcf", CARD.format("Aunt"), 0)
        self.books["contacts"].put("b.vcf", CARD.format("Bob"), 0)
        self.transport = Rounds(httpx2.ASGITransport(app=self.sandbox.app))
        pool = open_pool(ca_bundle=None, user_agent="tests", transport=self.transport)
        self.nextcloud = Nextcloud(NextcloudUrl.parse("http://localhost"), pool)
        # As long as one is open, Nextcloud is known to accept the credential.
        self.held = self.account()

    def account(self) -> Account:
        """Open alice's account anew, as each call does."""
        return self.nextcloud.account(BasicCredential("alice", SecretStr("alice")), uid="alice")

    async def prove(self) -> None:
        """Make a first request, which goes alone: no one knows yet whether the credential works."""
        await self.held.user.get()

    async def call(self, tool: str, **arguments: object) -> tuple[Any, list[list[str]]]:
        """Call a tool, and give its answer and the rounds that it took."""
        self.transport.rounds = []
        found = await call(self.account(), tool, **arguments)
        return found, self.transport.rounds


@pytest.fixture
async def personal_app() -> PersonalApp:
    made = PersonalApp()
    await made.prove()
    return made


def _titles(found: Any) -> list[str]:  # noqa: ANN401 - each tool's own result
    return sorted(each.title for each in found.events)


async def test_a_month_over_all_calendars_takes_two_rounds_and_then_one_request(
    personal_app: PersonalApp,
) -> None:
    first, cold = await personal_app.call("nc_calendar_list_events", **MONTH)
    second, warm = await personal_app.call("nc_calendar_list_events", **MONTH)

    assert _titles(first) == _titles(second) == ["club", "personal", "work"]
    assert all(each.awaits_answer for each in second.events)
    # The zone, the addresses and the list; then the calendars.
    assert len(cold[0]) == 3
    assert [sorted(each.rpartition("/")[2] for each in one) for one in cold[1:]] == [
        ["club", "contact_birthdays", "personal", "work"]
    ]
    # Nothing has changed, as the list says.
    assert warm == [["PROPFIND calendars/alice"]]


@pytest.mark.parametrize(
    ("calendars", "seconds", "expected"),
    [
        (0, ACCEPTED_SECONDS, [5]),
        (12, ACCEPTED_SECONDS, [17]),
        # No one knows whether the credential still works: beside the list as many as there are turns.
        (0, 0.0, [REQUESTS_AT_ONCE, 1]),
        (12, 0.0, [REQUESTS_AT_ONCE, REQUESTS_AT_ONCE, REQUESTS_AT_ONCE, REQUESTS_AT_ONCE, 1]),
    ],
)
async def test_other_dates_take_one_round_where_nextcloud_has_just_accepted_the_credential(
    personal_app: PersonalApp,
    monkeypatch: pytest.MonkeyPatch,
    calendars: int,
    seconds: float,
    expected: list[int],
) -> None:
    for number in range(calendars):
        personal_app.calendars[f"c{number}"] = StoredCalendar(f"C{number}")
    await personal_app.call("nc_calendar_list_events", **MONTH)
    monkeypatch.setattr(concurrency_limiter, "ACCEPTED_SECONDS", seconds)

    _, rounds = await personal_app.call("nc_calendar_list_events", start="2027-01-01", end="2027-01-31")

    assert [len(each) for each in rounds] == expected
    assert personal_app.transport.most <= WIDE_AT_ONCE


async def test_one_calendar_that_has_changed_is_the_only_one_that_is_fetched_again(
    personal_app: PersonalApp,
) -> None:
    await personal_app.call("nc_calendar_list_events", **MONTH)
    personal_app.calendars["club"].put("new.ics", EVENT.format("new"), 0)

    found, rounds = await personal_app.call("nc_calendar_list_events", **MONTH)

    assert _titles(found) == ["club", "new", "personal", "work"]
    assert rounds == [["PROPFIND calendars/alice"], ["REPORT calendars/alice/club"]]


async def test_a_week_of_a_month_that_was_listed_takes_one_request(personal_app: PersonalApp) -> None:
    await personal_app.call("nc_calendar_list_events", **MONTH)

    week, first = await personal_app.call("nc_calendar_list_events", start="2026-12-03", end="2026-12-06")
    empty, second = await personal_app.call("nc_calendar_list_events", start="2026-12-07", end="2026-12-13")

    assert (_titles(week), _titles(empty)) == (["club", "personal", "work"], [])
    assert first == second == [["PROPFIND calendars/alice"]]


async def test_one_calendar_takes_one_round(personal_app: PersonalApp) -> None:
    found, rounds = await personal_app.call("nc_calendar_list_events", **MONTH, calendar="work")

    assert _titles(found) == ["work"]
    assert len(rounds) == 1


async def test_free_time_takes_as_many_rounds_as_the_events(personal_app: PersonalApp) -> None:
    del personal_app.calendars["contact_birthdays"]
    await personal_app.call("nc_calendar_find_free_time", **MONTH)
    _, warm = await personal_app.call("nc_calendar_find_free_time", **MONTH)

    assert len(warm) == 1


async def test_tasks_of_all_lists_take_two_rounds_and_then_one_request(personal_app: PersonalApp) -> None:
    _, cold = await personal_app.call("nc_tasks_list_tasks", due_before="2026-12-31")
    found, warm = await personal_app.call("nc_tasks_list_tasks")

    assert sorted(each.title for each in found.tasks) == ["later", "todo"]
    assert len(cold) == 2
    assert warm == [["PROPFIND calendars/alice"]]


async def test_contacts_of_all_address_books_take_two_rounds_and_then_one(personal_app: PersonalApp) -> None:
    for name in ("system", "z-app-generated--contactsinteraction--recent"):
        personal_app.books.pop(name, None)
    _, cold = await personal_app.call("nc_contacts_search_contacts")
    found, warm = await personal_app.call("nc_contacts_search_contacts")

    assert {"Aunt", "Bob"} <= {each.name for each in found.contacts}
    assert len(cold) == 2
    assert len(warm) == 1


async def test_a_new_calendar_is_seen_at_once_and_a_deleted_one_causes_no_error(
    personal_app: PersonalApp,
) -> None:
    await personal_app.call("nc_calendar_list_events", **MONTH)
    personal_app.calendars["new"] = StoredCalendar("New")
    personal_app.calendars["new"].put("e.ics", EVENT.format("new"), 0)
    del personal_app.calendars["club"]

    found, _ = await personal_app.call("nc_calendar_list_events", **MONTH)

    assert _titles(found) == ["new", "personal", "work"]


async def test_what_is_missing_though_it_is_listed_is_an_error() -> None:
    async def listing() -> list[str]:
        return ["a", "b"]

    async def fetch(name: str) -> None:
        if name == "b":
            raise errors.NotFound(name)

    for expected in ([], ["b"], ["a", "b"]):
        with pytest.raises(errors.NotFound, match="b"):
            await of_each(listing, expected, fetch)
    assert await of_each(listing, ["c"], _nothing) == ["a", "b"]


async def _nothing(name: str) -> None:
    if name == "c":
        raise errors.NotFound(name)


def test_an_accepted_credential_is_known_to_work_for_a_moment_and_no_other_is() -> None:
    now = [100.0]
    mine, other = (BasicCredential("alice", SecretStr(secret)) for secret in ("a", "b"))
    shared = ConcurrencyLimiter(monotonic=lambda: now[0])
    nothing = shared.of(mine).just_accepted

    shared.accept(mine)
    at_once = [shared.of(each).just_accepted for each in (mine, other)]
    now[0] += ACCEPTED_SECONDS
    later = shared.of(mine).just_accepted

    assert (nothing, at_once, later) == (False, [True, False], False)


async def test_a_fact_is_asked_for_again_after_five_minutes() -> None:
    now = [0.0]
    asked: list[int] = []
    cache = UserCache(clock=lambda: now[0])

    async def ask() -> int:
        asked.append(1)
        return len(asked)

    found: list[int] = []
    for moment in (0.0, 299.0, 300.0):
        now[0] = moment
        found.append(await cache.fact("zone", ask))

    assert found == [1, 1, 2]


def test_each_person_has_a_cache_and_the_oldest_go() -> None:
    caches = UserCaches(most=2)
    caches.of("alice").saw("VEVENT", {"a": "1"})
    caches.of("bob").saw("VEVENT", {"b": "1"})

    assert caches.of("alice").states("VEVENT") == {"a": "1"}
    caches.of("carol")
    assert caches.of("alice").states("VEVENT") == {"a": "1"}
    assert caches.of("bob").states("VEVENT") == {}
