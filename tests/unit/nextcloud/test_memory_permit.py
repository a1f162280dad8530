"""The permit by itself, and in the requests whose responses need it."""

import gzip
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import anyio
import httpx2
import pytest
from anyio import lowlevel
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import memory_permit
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.concurrency_limiter import REQUESTS_AT_ONCE
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.memory_permit import LARGE_BYTES
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

LARGE = b"x" * (LARGE_BYTES + 1)
#: Enough turns of the event loop for everything that waits for nothing to be done.
TURNS = 100


async def settle() -> None:
    for _ in range(TURNS):
        await lowlevel.checkpoint()


async def together(*uses: Callable[[], Awaitable[object]]) -> None:
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

    def account(self, uid: str = "alice") -> Account:
        return self.accounts()(uid)

    def accounts(self) -> Callable[[str], Account]:
        """Return a way to open accounts that share the limits of their users."""
        pool = open_pool(ca_bundle=None, user_agent="tests", transport=self)
        nextcloud = Nextcloud(NextcloudUrl.parse("http://h"), pool)
        return lambda uid: nextcloud.account(BasicCredential(uid, SecretStr("p")), uid=uid)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, cloud: Cloud, content: bytes) -> None:
        self._cloud, self._content = cloud, content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._content), 65_536):
            await lowlevel.checkpoint()
            yield self._content[start : start + 65_536]

    async def aclose(self) -> None:
        self._cloud.open -= 1


def http(cloud: Cloud, uid: str = "alice") -> NextcloudHttp:
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=cloud)
    return NextcloudHttp(pool, NextcloudUrl.parse("http://h"), uid=uid)


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
            group.start_soon(partial(_apart, wait))
            await settle()
            group.cancel_scope.cancel()

    with anyio.fail_after(60):
        await wait()


async def _apart(use: Callable[[], Awaitable[object]]) -> None:
    """Use something as a call of its own, though it is started within another."""
    token = memory_permit._CALL.set(None)
    try:
        await use()
    finally:
        memory_permit._CALL.reset(token)


async def has_permit() -> bool:
    """Tell whether the current call has alice's permit: another call does not get it then."""
    refused = list[bool]()

    async def other() -> None:
        async with memory_permit.of_call():
            refused.append(not memory_permit.take_now("alice"))

    await _apart(other)
    return refused == [True]


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
            response = await http(cloud).request("GET", "/large")
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


@pytest.mark.parametrize("path", ["/small", "/large"])
async def test_small_responses_other_users_and_what_is_no_call_wait_for_nothing(path: str) -> None:
    cloud = Cloud()
    uid = "alice" if path == "/small" else "bob"

    async with memory_permit.of_call():
        await http(cloud).request("GET", "/large")

        async def use() -> None:
            async with memory_permit.of_call():
                await http(cloud, uid).request("GET", path)

        async def no_call() -> None:
            await http(cloud).request("GET", path)

        await together(partial(_apart, use), partial(_apart, no_call))

    assert cloud.asked == {"GET": 3}


async def test_a_body_of_exactly_the_free_size_needs_no_permit_and_one_byte_more_does() -> None:
    for size, needs in ((LARGE_BYTES, False), (LARGE_BYTES + 1, True)):
        async with memory_permit.of_call():
            await http(Cloud(b"x" * size)).request("GET", "/large")
            assert await has_permit() is needs


async def test_a_limit_below_the_free_size_holds_without_a_permit() -> None:
    async with memory_permit.of_call():
        with pytest.raises(errors.TooLarge):
            await http(Cloud()).request("GET", "/large", max_bytes=10)
        assert not await has_permit()


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_calls_that_wait_leave_the_users_slots_to_the_call_that_has_the_permit(method: str) -> None:
    """All slots could be taken by calls that wait for the permit, and its holder would wait for a slot."""
    cloud = Cloud()
    account = cloud.accounts()
    await account("alice")._http.request("GET", "/small")
    may_go_on = anyio.Event()

    async def holds() -> None:
        async with memory_permit.of_call():
            await account("alice")._http.request("GET", "/large")
            await may_go_on.wait()
            await account("alice")._http.request("GET", "/small")

    async def waits() -> None:
        async with memory_permit.of_call():
            response = await account("alice")._http.request(method, "/large")
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
