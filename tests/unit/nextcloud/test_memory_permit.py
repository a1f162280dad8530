"""The permit by itself, and in the requests whose responses need it."""

import gc
import gzip
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import httpx2
import pytest
from anyio import lowlevel
from anyio.abc import TaskGroup
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav, entries, memory_permit
from nextcloud_mcp_server.nextcloud.concurrency_limiter import REQUESTS_AT_ONCE, ConcurrencyLimiter
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.memory_permit import ResponseBytes
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from tests.permits import apart, is_held

#: What the calls of a user hold without the permit, here.
LARGE_BYTES = 131_072
LARGE = b"x" * (LARGE_BYTES + 1)
TREE = dav.Tree(("things",))
#: Enough turns of the event loop for everything that waits for nothing to be done.
TURNS = 100


@pytest.fixture(autouse=True)
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_permit, "LARGE_BYTES", LARGE_BYTES)


async def settle() -> None:
    for _ in range(TURNS):
        await lowlevel.checkpoint()


async def together(*uses: Callable[[], Coroutine[Any, Any, object]]) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for use in uses:
                group.start_soon(use)


class Cloud(httpx2.AsyncBaseTransport):
    """A Nextcloud that answers with one body, and counts the requests by method and those that are open."""

    def __init__(self, content: bytes = LARGE, **headers: str) -> None:
        self.content, self.headers = content, headers
        self.asked = Counter[str]()
        self.open = self.most = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked[request.method] += 1
        self.open += 1
        self.most = max(self.most, self.open)
        content = b"small" if request.url.path == "/small" else self.content
        return httpx2.Response(200, headers=self.headers, stream=_Body(self, content))

    def http(self, uid: str = "alice", limiter: ConcurrencyLimiter | None = None) -> NextcloudHttp:
        """Return the HTTP client of one call, with the slots of the user in `limiter`."""
        pool = open_pool(ca_bundle=None, user_agent="tests", transport=self)
        credential = BasicCredential(uid, SecretStr("p"))
        slots = limiter and limiter.of(credential)
        return NextcloudHttp(
            pool, NextcloudUrl.parse("http://h"), credential=credential, uid=uid, limiter=slots
        )


class _Body(httpx2.AsyncByteStream):
    def __init__(self, cloud: Cloud, content: bytes) -> None:
        self._cloud, self._content = cloud, content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._content), 65_536):
            await lowlevel.checkpoint()
            yield self._content[start : start + 65_536]

    async def aclose(self) -> None:
        self._cloud.open -= 1


async def test_one_call_of_a_user_has_the_permit_at_a_time_and_of_another_user_too() -> None:
    most, running = Counter[str](), Counter[str]()

    async def hold(who: str) -> None:
        async with memory_permit.of_call():
            await memory_permit.take(who)
            running[who] += 1
            most[who] = max(most[who], running[who])
            await anyio.sleep(0.01)
            running[who] -= 1

    await together(*(partial(hold, who) for who in ("alice",) * 6 + ("bob",) * 3))

    assert most == {"alice": 1, "bob": 1}


async def test_a_call_that_fails_or_is_cancelled_gives_the_permit_back() -> None:
    async def fail() -> None:
        async with memory_permit.of_call():
            await memory_permit.take("alice")
            raise ZeroDivisionError

    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            await fail()
        with anyio.move_on_after(0):
            async with memory_permit.of_call():
                await memory_permit.take("alice")
                await anyio.sleep_forever()

    with anyio.fail_after(60):
        async with memory_permit.of_call():
            await memory_permit.take("alice")


async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_permit_to_the_next() -> None:
    async def wait() -> None:
        async with memory_permit.of_call():
            await memory_permit.take("alice")

    async with memory_permit.of_call():
        await memory_permit.take("alice")
        async with anyio.create_task_group() as group:
            group.start_soon(partial(apart, wait))
            await settle()
            group.cancel_scope.cancel()

    assert not await is_held("alice")


async def test_the_parts_of_a_call_share_its_permit_and_a_call_within_it_is_a_part() -> None:
    held = list[str]()

    async def part(name: str) -> None:
        async with memory_permit.of_call():
            await memory_permit.take("alice")
            held.append(name)

    with anyio.fail_after(60):
        async with memory_permit.of_call(), anyio.create_task_group() as group:
            await memory_permit.take("alice")
            for name in ("a", "b"):
                group.start_soon(part, name)

    assert sorted(held) == ["a", "b"]


async def test_work_that_outlives_the_call_that_began_it_is_no_part_of_it() -> None:
    ended = anyio.Event()
    taken = list[bool]()

    async def later() -> None:
        await ended.wait()
        # On its own, and as a call of its own, while another call has the permit.
        taken.append(memory_permit.take_now("alice"))
        async with memory_permit.of_call():
            taken.append(memory_permit.take_now("alice"))

    async with anyio.create_task_group() as group:
        async with memory_permit.of_call():
            await memory_permit.take("alice")
            group.start_soon(later)
        async with memory_permit.of_call():
            await memory_permit.take("alice")
            ended.set()
            await settle()

    assert taken == [True, False]


async def test_work_that_gets_the_permit_after_its_call_has_ended_does_not_keep_it() -> None:
    async def wait() -> None:
        await memory_permit.take("alice")

    async def has_it_first() -> None:
        async with memory_permit.of_call():
            await memory_permit.take("alice")
            await begun.wait()

    begun = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(has_it_first)
        await settle()
        async with memory_permit.of_call():
            group.start_soon(wait)
            await settle()
        begun.set()

    assert not await is_held("alice")


@pytest.mark.parametrize(
    ("content", "headers"),
    [(LARGE, {}), (gzip.compress(LARGE), {"Content-Encoding": "gzip"})],
    ids=["plain", "compressed"],
)
async def test_a_large_response_is_held_by_one_call_until_its_end(
    content: bytes, headers: dict[str, str]
) -> None:
    cloud = Cloud(content, **headers)
    done = list[int]()
    may_end = anyio.Event()

    async def call(number: int) -> None:
        async with memory_permit.of_call():
            response = await cloud.http().request("GET", "/large")
            assert response.content == LARGE
            done.append(number)
            await may_end.wait()

    async def check() -> None:
        await settle()
        assert len(done) == 1
        may_end.set()

    await together(*(partial(call, number) for number in range(3)), check)

    assert sorted(done) == [0, 1, 2]
    # Those that waited kept neither what they had read nor a connection, and asked again.
    assert cloud.asked == {"GET": 5}
    assert cloud.open == 0


async def test_calls_that_wait_keep_nothing_of_what_they_have_read() -> None:
    """Each of 32 calls kept up to 4 MB: it waited where Python still had the error that broke its response off."""
    cloud = Cloud()
    read, release = list[int](), anyio.Event()

    async def holds() -> None:
        async with memory_permit.of_call():
            await memory_permit.take("alice")
            await release.wait()

    async def waits() -> None:
        async with memory_permit.of_call():
            read.append(len((await cloud.http().request("GET", "/large")).content))

    async def check() -> None:
        before, kept = tracemalloc.get_traced_memory()[0], 30 * LARGE_BYTES
        async with anyio.create_task_group() as group:
            for _ in range(30):
                group.start_soon(partial(apart, waits))
            while cloud.asked["GET"] < 30 or cloud.open:
                await lowlevel.checkpoint()
            await settle()
            gc.collect()
            kept = tracemalloc.get_traced_memory()[0] - before
            release.set()
        assert kept < 10 * LARGE_BYTES

    tracemalloc.start()
    try:
        await together(holds, check)
    finally:
        tracemalloc.stop()

    assert read == [len(LARGE)] * 30


@pytest.mark.parametrize("path", ["/small", "/large"])
async def test_small_responses_other_users_and_what_is_no_call_wait_for_nothing(path: str) -> None:
    cloud = Cloud()
    uid = "alice" if path == "/small" else "bob"

    async with memory_permit.of_call():
        await cloud.http().request("GET", "/large")

        async def use() -> None:
            async with memory_permit.of_call():
                await cloud.http(uid).request("GET", path)

        async def no_call() -> None:
            await cloud.http().request("GET", path)

        await together(partial(apart, use), partial(apart, no_call))

    assert cloud.asked == {"GET": 3}


async def test_a_body_of_exactly_the_free_size_needs_no_permit_and_one_byte_more_does() -> None:
    for size, needs in ((LARGE_BYTES, False), (LARGE_BYTES + 1, True)):
        async with memory_permit.of_call():
            await Cloud(b"x" * size).http().request("GET", "/large")
            assert await is_held("alice") is needs


async def test_a_limit_below_the_free_size_holds_without_a_permit() -> None:
    async with memory_permit.of_call():
        with pytest.raises(errors.TooLarge):
            await Cloud().http().request("GET", "/large", max_bytes=10)
        assert not await is_held("alice")


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_calls_that_wait_leave_the_users_slots_to_the_call_that_has_the_permit(method: str) -> None:
    """All slots could be taken by calls that wait for the permit, and its holder would wait for a slot."""
    cloud = Cloud()
    limiter = ConcurrencyLimiter()
    await cloud.http(limiter=limiter).request("GET", "/small")
    may_go_on = anyio.Event()

    async def holds() -> None:
        async with memory_permit.of_call():
            await cloud.http(limiter=limiter).request("GET", "/large")
            await may_go_on.wait()
            await cloud.http(limiter=limiter).request("GET", "/small")

    async def waits() -> None:
        async with memory_permit.of_call():
            response = await cloud.http(limiter=limiter).request(method, "/large")
            assert response.content == LARGE

    async def begin() -> None:
        await settle()
        async with anyio.create_task_group() as group:
            for _ in range(2 * REQUESTS_AT_ONCE):
                group.start_soon(waits)
            await settle()
            may_go_on.set()

    await together(holds, begin)

    # A change is never sent twice.
    assert method == "GET" or cloud.asked["PUT"] == 2 * REQUESTS_AT_ONCE
    assert cloud.open == 0


async def test_few_changes_wait_with_their_connections_and_the_others_before_they_are_sent() -> None:
    """32 changes of one user kept 32 of the hundred connections of all users, so three users kept all of them."""
    cloud, limiter = Cloud(), ConcurrencyLimiter()
    await cloud.http(limiter=limiter).request("GET", "/small")
    open_at_once = list[int]()

    async def holds() -> None:
        async with memory_permit.of_call():
            await memory_permit.take("alice")
            await settle()
            open_at_once.append(cloud.open)
            # The call that has the permit changes things meanwhile.
            await cloud.http(limiter=limiter).request("PUT", "/small")

    async def changes() -> None:
        async with memory_permit.of_call():
            assert (await cloud.http(limiter=limiter).request("PUT", "/large")).content == LARGE

    await together(holds, *(changes for _ in range(32)))

    # Those that were being sent when the others began to wait are open, too.
    assert open_at_once[0] < memory_permit.MOST_OPEN_CHANGES + REQUESTS_AT_ONCE
    # A change is never sent twice.
    assert cloud.asked["PUT"] == 32 + 1
    assert cloud.open == 0


async def test_other_users_and_work_outside_of_a_call_send_changes_beside_those_that_wait() -> None:
    cloud = Cloud()

    async def holds() -> None:
        async with memory_permit.of_call():
            await memory_permit.take("alice")
            await settle()
            async with memory_permit.of_call():
                await apart(partial(cloud.http("bob").request, "PUT", "/large"))
            await apart(partial(cloud.http().request, "PUT", "/small"))

    async def changes() -> None:
        async with memory_permit.of_call():
            await cloud.http().request("PUT", "/large")

    await together(holds, *(changes for _ in range(memory_permit.MOST_OPEN_CHANGES)))

    assert cloud.asked == {"PUT": memory_permit.MOST_OPEN_CHANGES + 2}
    assert cloud.open == 0


async def test_the_responses_of_one_call_are_large_together() -> None:
    """16 searches at once in twenty places, each with 250 KB, held 80 MB."""
    cloud = Cloud(b"x" * (LARGE_BYTES // 2 + 1))

    async with memory_permit.of_call():
        await cloud.http().request("GET", "/half")
        assert not await is_held("alice")
        await cloud.http().request("GET", "/half")
        assert await is_held("alice")

    assert cloud.open == 0


async def test_the_responses_of_a_users_calls_are_large_together_and_a_call_that_ends_holds_none() -> None:
    cloud = Cloud(b"x" * (LARGE_BYTES // 2 + 1))

    async def call() -> None:
        async with memory_permit.of_call():
            await cloud.http().request("GET", "/half")
            held.append(await is_held("alice"))

    held = list[bool]()
    for _ in range(3):
        await call()
    async with memory_permit.of_call():
        await cloud.http().request("GET", "/half")
        await apart(call)
        memory_permit.dropped()
        await apart(call)

    # One after the other; beside another one; beside one that has dropped what it held.
    assert held == [False, False, False, True, False]


async def test_a_call_that_has_the_permit_leaves_the_others_what_is_free() -> None:
    cloud = Cloud()
    small = Cloud(b"x" * (LARGE_BYTES // 2))

    async def call() -> None:
        async with memory_permit.of_call():
            await small.http().request("GET", "/half")

    async with memory_permit.of_call():
        await cloud.http().request("GET", "/large")
        for _ in range(3):
            with anyio.fail_after(60):
                await apart(call)

    assert small.asked == {"GET": 3}


async def test_the_responses_of_one_call_are_limited_together_except_those_that_it_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One search in twenty places, each with 30 MB, took 850 MB."""
    monkeypatch.setattr(memory_permit, "MOST_BYTES", 3 * len(LARGE))
    cloud = Cloud()

    async with memory_permit.of_call():
        for _ in range(3):
            await cloud.http().request("GET", "/large")
        memory_permit.dropped()
        refused = 0

        async def part() -> None:
            nonlocal refused
            try:
                await cloud.http().request("GET", "/large")
            except errors.TooLarge:
                refused += 1

        await together(*(part for _ in range(20)))
        # What was refused is not held.
        assert refused < 20
        memory_permit.dropped()
        await cloud.http().request("GET", "/large")

    assert refused >= 17
    assert cloud.open == 0


async def test_a_change_that_was_made_is_not_refused_for_what_its_call_has_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An edit reads a note and gets it back: of a note of 9 MB, both were more than a call may hold."""
    monkeypatch.setattr(memory_permit, "MOST_BYTES", 3 * len(LARGE) // 2)
    cloud = Cloud()

    async with memory_permit.of_call():
        await cloud.http().request("GET", "/large")
        changed = await cloud.http().request("PUT", "/large")
        with pytest.raises(errors.TooLarge, match="larger together"):
            await cloud.http().request("GET", "/large")

    assert changed.content == LARGE


async def test_a_change_whose_response_is_too_long_is_said_to_be_made() -> None:
    cloud = Cloud()

    async with memory_permit.of_call():
        with pytest.raises(errors.TooLarge, match=r"made this change.*Do not repeat it"):
            await cloud.http().request("PUT", "/large", max_bytes=LARGE_BYTES)
        with pytest.raises(errors.TooLarge, match="Ask for less"):
            await cloud.http().request("GET", "/large", max_bytes=LARGE_BYTES)


async def test_of_a_compressed_response_no_more_is_read_before_the_permit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud = Cloud(gzip.compress(b"x" * 10_000_000), **{"Content-Encoding": "gzip"})
    counted = list[int]()
    count = ResponseBytes.count

    async def watched(part: ResponseBytes, size: int) -> None:
        counted.append(size)
        await count(part, size)

    monkeypatch.setattr(ResponseBytes, "count", watched)

    async with memory_permit.of_call():
        response = await cloud.http().request("GET", "/large")

    assert len(response.content) == 10_000_000
    assert counted[0] == LARGE_BYTES + 1


async def test_a_call_that_ends_while_a_part_of_it_waits_leaves_the_permit_to_others() -> None:
    done = list[bool]()

    async def wait() -> None:
        await memory_permit.take("alice")

    async def ends_early(group: TaskGroup) -> None:
        async with memory_permit.of_call():
            group.start_soon(wait)
            await settle()

    async def next_one() -> None:
        async with memory_permit.of_call():
            await wait()
        done.append(True)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group, memory_permit.of_call():
            await memory_permit.take("alice")
            await apart(partial(ends_early, group))
            group.start_soon(partial(apart, next_one))
            await settle()

    assert done == [True]


@pytest.mark.parametrize("of_one_call", [True, False], ids=["parts", "calls"])
async def test_one_large_list_of_a_user_is_parsed_at_a_time(
    monkeypatch: pytest.MonkeyPatch, *, of_one_call: bool
) -> None:
    """The events of 20 calendars, each of 10 MB, took 330 MB in one call; 8 looks into a trash of 30 MB took 310 MB."""
    monkeypatch.setattr(memory_permit, "LARGE_LIST_BYTES", 200)
    cloud = Cloud(_listed(3), **{"Content-Type": "application/xml"})
    parsing, most = 0, 0
    seen = list[str]()

    async def look() -> None:
        nonlocal parsing, most
        asked = entries.ask(cloud.http(), "PROPFIND", TREE, body=b"")
        async with asked as found:
            async for segments, _ in found:
                parsing += 1
                most = max(most, parsing)
                await settle()
                parsing -= 1
                seen.append(segments[0])

    async def call() -> None:
        async with memory_permit.of_call():
            await look()

    if of_one_call:
        async with memory_permit.of_call():
            await together(*(look for _ in range(5)))
    else:
        await together(*(partial(apart, call) for _ in range(5)))

    assert most == 1
    assert Counter(seen) == {"0": 5, "1": 5, "2": 5}
    assert cloud.open == 0


async def test_a_large_list_within_one_and_a_small_list_wait_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = _listed(3)
    cloud = Cloud(content, **{"Content-Type": "application/xml"})

    async def names() -> list[str]:
        async with entries.ask(cloud.http(), "PROPFIND", TREE, body=b"") as found:
            return [segments[0] async for segments, _ in found]

    with anyio.fail_after(60):
        async with memory_permit.of_call():
            assert await names() == ["0", "1", "2"]
            assert not await is_held("alice")
        monkeypatch.setattr(memory_permit, "LARGE_LIST_BYTES", 200)
        async with memory_permit.of_call(), entries.ask(cloud.http(), "PROPFIND", TREE, body=b"") as found:
            async for _ in found:
                assert await names() == ["0", "1", "2"]


def _listed(number: int) -> bytes:
    each = "".join(
        f"<d:response><d:href>/remote.php/dav/things/{one}</d:href><d:propstat><d:prop><d:getetag>x</d:getetag>"
        "</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
        for one in range(number)
    )
    return f'<?xml version="1.0"?><d:multistatus xmlns:d="DAV:">{each}</d:multistatus>'.encode()
