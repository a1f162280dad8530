"""What is kept of calendars is never older than what Nextcloud has: a server that keeps nothing says the same."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.caldav import Stored
from nextcloud_mcp_server.nextcloud.calendar_objects import KeptCalendar, KeptCalendars
from nextcloud_mcp_server.nextcloud.content_cache import MAX_PERSON_BYTES
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.calendar_store import StoredCalendar
from nextcloud_mcp_server.sandbox.calendar_trash import discard
from tests.dav_fakes import call

NAMES = ("personal", "work", "club", "family", "sport")
DAYS = ("2026-12-05", "2026-12-20", "2027-01-05")
RANGES = (("2026-12-01", "2026-12-31"), ("2026-12-15", "2026-12-25"), ("2027-01-01", "2027-01-31"))


def event(title: str, day: str) -> str:
    return (
        f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:{title}\r\nDTSTART:{day.replace('-', '')}T100000Z\r\n"
        f"SUMMARY:{title}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )


@dataclass
class Served:
    """A sandbox whose calendars another client changes, between calls or while a request is under way."""

    sandbox: Sandbox = field(default_factory=Sandbox)
    asked: list[str] = field(default_factory=list[str])
    before: dict[int, Callable[[], None]] = field(default_factory=dict[int, Callable[[], None]])
    rewrite: Callable[[bytes], bytes] = bytes
    answered: Callable[[httpx2.Request], object] = bool
    list_after: anyio.Event | None = None
    away: dict[str, StoredCalendar] = field(default_factory=dict[str, StoredCalendar])

    def __post_init__(self) -> None:
        self.calendars = self.sandbox.add_user("alice").calendars
        for name in NAMES:
            self.calendars.setdefault(name, StoredCalendar(name.title()))
        self.nextcloud = self.open()
        self.held = self.account()

    def open(self) -> Nextcloud:
        inner = httpx2.ASGITransport(app=self.sandbox.app)

        async def answer(request: httpx2.Request) -> httpx2.Response:
            self.asked.append(request.method)
            if self.list_after is not None and request.method == "PROPFIND":
                await self.list_after.wait()
            self.before.pop(len(self.asked), bool)()
            response = await inner.handle_async_request(request)
            content = self.rewrite(await response.aread())
            self.answered(request)
            headers = {name: text for name, text in response.headers.items() if name != "content-length"}
            return httpx2.Response(response.status_code, headers=headers, content=content)

        pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
        return Nextcloud(NextcloudUrl.parse("http://localhost"), pool)

    def account(self) -> Account:
        return self.nextcloud.account(BasicCredential("alice", SecretStr("alice")), uid="alice")

    async def listed(self, dates: tuple[str, str], *, anew: bool = False) -> list[tuple[str, str]]:
        account = self.account()
        if anew:
            account = self.open().account(BasicCredential("alice", SecretStr("alice")), uid="alice")
        found: Any = await call(account, "nc_calendar_list_events", start=dates[0], end=dates[1])
        return [(each.title, each.start) for each in found.events]

    def put(self, name: str, number: int, title: str, day: str) -> None:
        if name in self.calendars:
            self.calendars[name].put(f"{number}.ics", event(title, day), 0)

    def change(self, what: str, name: str, number: int, day: str) -> None:
        """Change a calendar as another client does."""
        if what == "put":
            self.put(name, number, f"{name}-{number}-{day}", day)
        elif what == "delete" and name in self.calendars and f"{number}.ics" in self.calendars[name].objects:
            discard(self.sandbox.state, self.calendars[name], f"{number}.ics")
        elif what == "remove" and name in self.calendars:
            self.away[name] = self.calendars.pop(name)
        elif what == "return" and name in self.away:
            self.calendars[name] = self.away.pop(name)


CHANGES = st.tuples(
    st.sampled_from(("put", "put", "delete", "remove", "return")),
    st.sampled_from(NAMES),
    st.integers(0, 1),
    st.sampled_from(DAYS),
)
#: A range to list, and before which of the next requests what is changed.
STEPS = st.lists(
    st.tuples(st.sampled_from(RANGES), st.dictionaries(st.integers(1, 8), CHANGES, max_size=2)),
    min_size=2,
    max_size=5,
)


@settings(max_examples=10, deadline=None)
@given(steps=STEPS)
def test_whatever_another_client_changes_whenever_the_next_list_says_what_is_there(
    steps: list[tuple[tuple[str, str], dict[int, tuple[str, str, int, str]]]],
) -> None:
    async def play() -> None:
        served = Served()
        for dates, changes in steps:
            served.before = {
                len(served.asked) + after: partial(served.change, *change)
                for after, change in changes.items()
            }
            # A calendar that goes while it is asked for is an error, as ever.
            try:
                await served.listed(dates)
            except errors.NotFound:
                assert served.away
            for change in served.before.values():
                change()
            served.before = {}
            assert await served.listed(dates) == await served.listed(dates, anew=True)

    anyio.run(play)


@pytest.mark.parametrize("late", [1, 2, 3, 4, 5])
async def test_what_changes_while_a_list_is_fetched_is_in_the_next_one(late: int) -> None:
    served = Served()
    await served.listed(RANGES[0])
    served.before = {len(served.asked) + late: partial(served.put, "club", 0, "Late", "2027-01-05")}

    await served.listed(RANGES[2])

    assert await served.listed(RANGES[2]) == [("Late", "2027-01-05T10:00:00+00:00")]


async def test_what_changes_before_a_late_list_tells_the_new_state_is_in_the_next_one() -> None:
    served = Served()
    await served.listed(RANGES[0])
    served.list_after = anyio.Event()

    def answered(request: httpx2.Request) -> None:
        # The three that are asked for beside the list were answered; now they change, and then they are listed.
        if served.asked[-4:].count("REPORT") == 3 and served.list_after and request.method == "REPORT":
            for name in NAMES:
                served.change("put", name, 0, DAYS[2])
            served.list_after.set()

    served.answered = answered
    await served.listed(RANGES[2])

    assert len(await served.listed(RANGES[2])) == len(NAMES)


async def test_a_calendar_without_a_state_is_fetched_each_time() -> None:
    served = Served(rewrite=lambda content: content.replace(b"getctag", b"gettag"))
    await served.listed(RANGES[0])
    served.asked.clear()

    await served.listed(RANGES[0])

    calendars = len(served.calendars)
    assert sorted(served.asked) == ["PROPFIND", *["REPORT"] * calendars]


def kept(size: int) -> KeptCalendar:
    return KeptCalendar.of("1", None, [Stored("c/e.ics", "e", "x" * size)])


def test_an_object_that_is_the_same_is_not_read_again() -> None:
    texts = {name: event(name, DAYS[0]) for name in ("same", "changed")}
    first = KeptCalendar.of("1", None, [Stored(name, "e", text) for name, text in texts.items()])
    texts |= {"changed": event("other", DAYS[0]), "new": event("new", DAYS[0])}

    second = KeptCalendar.of("2", None, [Stored(name, "e", text) for name, text in texts.items()], first)

    assert [one in first.objects for one in second.objects] == [True, False, False]
    assert next(one.series("VEVENT").core for one in second.objects) is first.objects[0].series("VEVENT").core


def test_short_lines_count_as_what_is_made_of_them() -> None:
    """Lines of four characters took 42 times their text, and 10 times was counted."""
    lines = [KeptCalendar.of("1", None, [Stored("c/e.ics", "e", line * 19_000)]) for line in ("A:\n", "A:.")]

    assert lines[0].size > 30 * lines[1].size


def test_an_object_that_is_not_parsed_counts_as_its_text() -> None:
    assert kept(20_000).size < 100_000
    assert KeptCalendar.of("1", None, [Stored("c/e.ics", "e", "A:\n" * 20_001)]).size < 100_000


def test_calendars_that_are_too_large_are_not_kept_and_spoil_no_other() -> None:
    calendars = {
        "huge": kept(MAX_PERSON_BYTES // 5),
        "small": kept(10),
        "other": kept(MAX_PERSON_BYTES // 20),
    }

    found = KeptCalendars.of(calendars)

    assert set(found.by_id) == {"small", "other"}
    assert found.size <= MAX_PERSON_BYTES


def test_what_is_kept_of_all_time_covers_every_range_and_a_range_what_is_in_it() -> None:
    first, second, third = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 2, 3))
    everything, part = (KeptCalendar("1", within, (), 0) for within in (None, (first, second)))
    ranges = (None, (first, second), (first, third), (second, third))

    assert [everything.covers(each) for each in ranges] == [True] * 4
    assert [part.covers(each) for each in ranges] == [False, True, False, False]
