import anyio
import pytest

from nextcloud_mcp_server.auth.cached import PAUSE_SECONDS, SHORT_PAUSE_SECONDS, Ages, Cached
from nextcloud_mcp_server.errors import ConfigurationError, IssuerUnavailable
from tests.issuer_fixtures import Time

AGES = Ages(fresh_seconds=600, stale_seconds=86_400)


class Source:
    def __init__(self) -> None:
        self.asked = 0
        self.failure: Exception | None = None
        self.gate: anyio.Event | None = None
        self.reached = anyio.Event()

    async def __call__(self) -> int:
        self.asked += 1
        self.reached.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return self.asked


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def cached(source: Source, time: Time) -> Cached[int]:
    return Cached(source, AGES, monotonic=time)


async def test_a_value_is_kept_while_it_is_fresh(cached: Cached[int], time: Time) -> None:
    first = await cached.get()
    time.now += 599
    second = await cached.get()
    time.now += 1
    third = await cached.get()

    assert [first, second, third] == [1, 1, 2]


async def test_many_share_one_question(cached: Cached[int], source: Source) -> None:
    source.gate = anyio.Event()
    found: list[int] = []

    async def ask() -> None:
        found.append(await cached.get())

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(ask)
        await source.reached.wait()
        source.gate.set()

    assert found == [1] * 20


async def test_many_share_one_failure(cached: Cached[int], source: Source) -> None:
    source.gate = anyio.Event()
    source.failure = IssuerUnavailable("down", status=503)
    failures: list[IssuerUnavailable] = []

    async def ask() -> None:
        with pytest.raises(IssuerUnavailable, match="down") as caught:
            await cached.get()
        failures.append(caught.value)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(ask)
        await source.reached.wait()
        source.gate.set()

    assert source.asked == 1
    assert {failure.status for failure in failures} == {503}
    assert len(set(map(id, failures))) == 20


async def test_a_failure_without_a_value_is_tried_again_soon(
    cached: Cached[int], source: Source, time: Time
) -> None:
    source.failure = ConfigurationError("wrong")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="wrong"):
            await cached.get()
    source.failure = None
    time.now += SHORT_PAUSE_SECONDS

    assert await cached.get() == 2


async def test_an_old_value_serves_for_a_day_while_the_source_is_down(
    cached: Cached[int], source: Source, time: Time
) -> None:
    await cached.get()
    source.failure = IssuerUnavailable("down")
    time.now += 86_399
    old = [await cached.get() for _ in range(3)]
    asked = source.asked
    time.now += 1

    assert old == [1, 1, 1]
    assert asked == 2
    with pytest.raises(IssuerUnavailable, match="down"):
        await cached.get()


async def test_no_caller_waits_for_a_request_while_the_old_value_is_valid(
    cached: Cached[int], source: Source, time: Time
) -> None:
    await cached.get()
    time.now += 600
    source.gate, source.reached = anyio.Event(), anyio.Event()
    meanwhile: list[int] = []
    async with anyio.create_task_group() as group:
        group.start_soon(cached.get)
        await source.reached.wait()
        with anyio.fail_after(60):
            meanwhile.append(await cached.get())
        source.gate.set()

    assert meanwhile == [1]
    assert await cached.get() == 2


async def test_a_caller_that_is_cancelled_leaves_the_answer_to_the_others(
    cached: Cached[int], source: Source
) -> None:
    source.gate = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(cached.get)
        await source.reached.wait()
        group.cancel_scope.cancel()
        source.gate.set()

    assert await cached.get() == 1
    assert source.asked == 1


async def test_renewing_asks_once_in_a_pause(cached: Cached[int], source: Source, time: Time) -> None:
    await cached.get()
    found = [await cached.renew() for _ in range(10)]
    time.now += PAUSE_SECONDS
    later = await cached.renew()

    assert found == [2] * 10
    assert later == 3


async def test_a_failed_renewal_leaves_the_old_value(cached: Cached[int], source: Source, time: Time) -> None:
    await cached.get()
    source.failure = IssuerUnavailable("down")
    old = await cached.renew()
    time.now += PAUSE_SECONDS - 1
    await cached.renew()

    assert old == 1
    assert source.asked == 2
