import time
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.apps.notes.models import Note
from nextcloud_mcp_server.apps.notes.texts import KeptNotes, SearchedNote
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.content_cache import ContentCache
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox

ALICE = BasicCredential("alice", SecretStr("alice"))


def kept(size: int = 10) -> KeptNotes:
    return KeptNotes.of([SearchedNote.of(Note(id="1", title="a", content="x" * size))], 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_only_so_many_people_and_bytes_are_kept_the_longest_unused_go_first() -> None:
    texts = ContentCache(monotonic=Clock(), max_people=2, max_bytes=40_000, max_person_bytes=30_000)

    for uid in ("a", "b", "c"):
        texts.keep(uid, ALICE, "notes", kept())
    texts.take("b", ALICE, "notes")
    texts.keep("d", ALICE, "notes", kept(8000))
    people = texts.people
    texts.keep("e", ALICE, "notes", kept(12_000))
    texts.keep("b", ALICE, "notes", kept(20_000))

    assert people == ["b", "d"]
    assert texts.people == ["e"]
    assert texts.size <= 40_000


def test_what_was_not_used_for_long_is_dropped_when_another_person_searches() -> None:
    clock = Clock()
    texts = ContentCache(monotonic=clock, idle_seconds=60)
    texts.keep("alice", ALICE, "notes", kept())

    clock.now = 61

    assert texts.take("bob", ALICE, "notes") is None
    assert texts.people == []


class Served:
    """A sandbox that counts what is asked for notes, with a clock of its own."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
        self.sandbox = Sandbox.demo(clock=lambda: self.now)
        self.asked: list[dict[str, str]] = []
        inner = httpx2.ASGITransport(app=self.sandbox.app)

        async def answer(request: httpx2.Request) -> httpx2.Response:
            if request.url.path.endswith("/notes") and request.method == "GET":
                self.asked.append(dict(request.url.params))
            return await inner.handle_async_request(request)

        pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
        self.nextcloud = Nextcloud(NextcloudUrl.parse("http://localhost"), pool)

    def account(self, uid: str = "alice") -> Account:
        return self.nextcloud.account(BasicCredential(uid, SecretStr(uid)), uid=uid)

    def pass_time(self) -> None:
        self.now = datetime.fromtimestamp(self.now.timestamp() + 60, UTC)


async def titles(account: Account) -> dict[str, str | None]:
    return {one.note.title: one.note.content for one in (await account.client(NotesClient).texts()).notes}


async def test_a_later_search_asks_once_and_gets_only_what_has_changed() -> None:
    served = Served()
    first = await titles(served.account())
    served.pass_time()
    notes = served.account().client(NotesClient)
    made = await notes.create(title="New", content="fresh", category="", favorite=False)
    gone = next(one.note for one in (await notes.texts()).notes if one.note.title != "New")
    await notes.delete(gone.id)
    served.pass_time()
    await notes.update(made.id, if_match=None, content="changed")
    served.asked.clear()

    later = await titles(served.account())

    assert later == {**{name: text for name, text in first.items() if name != gone.title}, "New": "changed"}
    [asked] = served.asked
    assert set(asked) == {"pruneBefore"}


async def test_a_clock_that_was_set_back_has_everything_read_anew() -> None:
    served = Served()
    await titles(served.account())
    served.now = datetime.fromtimestamp(served.now.timestamp() - 3600, UTC)
    await (
        served.account().client(NotesClient).create(title="New", content="fresh", category="", favorite=False)
    )
    served.asked.clear()

    later = await titles(served.account())

    assert later["New"] == "fresh"
    assert [set(asked) for asked in served.asked] == [{"pruneBefore"}, {"chunkSize"}]


def listed(notes: list[dict[str, Any]], *, at: float | None = None) -> httpx2.Response:
    when = format_datetime(datetime.fromtimestamp(at or time.time(), UTC), usegmt=True)
    return httpx2.Response(200, headers={"X-User-Id": "alice", "Last-Modified": when}, json=notes)


def over(*answers: httpx2.Response) -> Account:
    left = list(answers)
    pool = open_pool(
        ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(lambda _: left.pop(0))
    )
    return Nextcloud(NextcloudUrl.parse("https://h"), pool).account(ALICE, uid="alice")


NOTE: dict[str, Any] = {"id": 1, "title": "a", "content": "x", "etag": "e"}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ([NOTE], listed([{"id": 1}, {"id": 2}])),
        ([{**NOTE, "error": True}], listed([{"id": 1}])),
        ([NOTE], httpx2.Response(200, content=b" " * 33_554_433)),
        ([NOTE], httpx2.Response(200, headers={"Last-Modified": "x"}, json=[])),
    ],
)
async def test_where_a_later_answer_does_not_tell_enough_everything_is_read_anew(
    first: list[dict[str, Any]], then: httpx2.Response
) -> None:
    account = over(listed(first), then, listed([{**NOTE, "content": "new"}]))
    await account.client(NotesClient).texts()

    assert await titles(account) == {"a": "new"}
