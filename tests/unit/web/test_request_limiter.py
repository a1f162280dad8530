from contextlib import AsyncExitStack

import anyio
import pytest

from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import TooManyRequests
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.web import request_limiter
from nextcloud_mcp_server.web.request_limiter import RequestLimiter, RequestRates

#: One request a minute after the first ones, and nothing waits.
STRICT = RequestRates(per_minute=2, burst=4, calls=4, streams=4, wait_seconds=0, refusal_seconds=0)


def bearer(person: str = "alice", client: str = "one") -> Bearer:
    return Bearer(Principal("https://id.test", person), client, None, 0, {})


async def ask(limiter: RequestLimiter, who: Bearer, *, size: int = 0, elements: int = 0) -> bool:
    try:
        async with limiter.admit(who) as admission:
            admission.charge_body(size, elements)
    except TooManyRequests:
        return False
    return True


async def test_a_client_gets_half_of_what_its_person_gets_and_others_get_their_own() -> None:
    limiter = RequestLimiter(STRICT)

    one = [await ask(limiter, bearer(client="one")) for _ in range(3)]
    two = [await ask(limiter, bearer(client="two")) for _ in range(3)]
    three = await ask(limiter, bearer(client="three"))
    bob = await ask(limiter, bearer("bob"))

    assert one == two == [True, True, False]
    assert (three, bob) == (False, True)


async def test_a_refusal_says_how_long_to_wait() -> None:
    limiter = RequestLimiter(STRICT)
    for _ in range(2):
        await ask(limiter, bearer())

    with pytest.raises(TooManyRequests) as refused:
        async with limiter.admit(bearer()):
            raise NotImplementedError

    assert 55 <= refused.value.retry_after_seconds <= 60
    assert "wait" in str(refused.value)


async def test_a_refusal_takes_its_time_and_more_of_it_the_more_are_refused_at_once() -> None:
    limiter = RequestLimiter(RequestRates(per_minute=2, burst=4, wait_seconds=0, refusal_seconds=0.05))
    for _ in range(2):
        await ask(limiter, bearer())
    took: list[float] = []

    async def refused() -> None:
        began = anyio.current_time()
        assert not await ask(limiter, bearer())
        took.append(anyio.current_time() - began)

    async with anyio.create_task_group() as group:
        for _ in range(32):
            group.start_soon(refused)

    assert min(took) >= 0.05
    assert max(took) >= 0.1


async def test_what_comes_a_little_too_fast_waits() -> None:
    limiter = RequestLimiter(RequestRates(per_minute=6000, burst=2))

    began = anyio.current_time()
    answers = [await ask(limiter, bearer()) for _ in range(4)]

    assert all(answers)
    assert anyio.current_time() - began >= 0.05


@pytest.mark.parametrize(("size", "elements"), [(131_072, 0), (0, 1_000)])
async def test_a_large_body_costs_as_much_as_more_requests(size: int, elements: int) -> None:
    limiter = RequestLimiter(STRICT)

    answers = [await ask(limiter, bearer(), size=size, elements=elements) for _ in range(2)]

    assert answers == [True, False]


async def test_calls_beyond_those_at_work_wait_and_beyond_those_that_wait_are_refused() -> None:
    limiter = RequestLimiter(RequestRates(calls=2, refusal_seconds=0))
    begun: list[int] = []
    refused: list[int] = []
    at_work: list[int] = []
    over = anyio.Event()

    async def call(number: int) -> None:
        async with limiter.admit(bearer()) as admission:
            try:
                async with admission.call():
                    begun.append(number)
                    await over.wait()
            except TooManyRequests:
                refused.append(number)

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(call, number)
            await anyio.wait_all_tasks_blocked()
        at_work += begun
        over.set()

    assert (at_work, begun, refused) == ([0], [0, 1], [2])


async def test_one_client_reads_one_large_body_at_once() -> None:
    limiter = RequestLimiter()
    async with limiter.admit(bearer()) as admission, admission.large_body():
        with anyio.move_on_after(0.01) as second:
            async with limiter.admit(bearer()) as other, other.large_body():
                raise NotImplementedError

    assert second.cancelled_caught


async def test_open_streams_are_counted_until_they_end() -> None:
    limiter = RequestLimiter(RequestRates(streams=4, refusal_seconds=0))
    async with AsyncExitStack() as stack:
        for _ in range(2):
            admission = await stack.enter_async_context(limiter.admit(bearer()))
            await stack.enter_async_context(admission.stream())
        one_more = await stack.enter_async_context(limiter.admit(bearer()))
        with pytest.raises(TooManyRequests):
            await stack.enter_async_context(one_more.stream())
    async with limiter.admit(bearer()) as again, again.stream():
        pass


async def test_shares_that_are_not_in_use_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limiter, "_MOST_SHARES", 10)
    limiter = RequestLimiter(RequestRates(per_minute=6_000_000))

    async with limiter.admit(bearer("kept")):
        for number in range(100):
            await ask(limiter, bearer(f"person-{number}"))
            await anyio.wait_all_tasks_blocked()

    assert limiter.remembered <= 40
