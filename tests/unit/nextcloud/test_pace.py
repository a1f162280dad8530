import time
from contextlib import ExitStack

import anyio
import pytest
from anyio import to_thread

from nextcloud_mcp_server.nextcloud import pace


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the rests of work in a thread; nobody waits for them."""
    found = list[float]()
    monkeypatch.setattr(pace.time, "sleep", found.append)
    return found


def test_work_of_one_user_rests_while_another_user_has_a_request(slept: list[float]) -> None:
    with pace.work_of("alice"), pace.request_of("bob"):
        pace.give_way_in_thread()

    assert slept


def test_work_without_requests_of_others_does_not_rest(slept: list[float]) -> None:
    with pace.work_of("alice"), pace.request_of("alice"):
        with pace.request_of("bob"):
            pass
        pace.give_way_in_thread()

    assert not slept


def test_a_rest_ends_with_the_request_of_the_other_user(monkeypatch: pytest.MonkeyPatch) -> None:
    bob, slept = ExitStack(), list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            bob.close()

    monkeypatch.setattr(pace.time, "sleep", sleep)
    bob.enter_context(pace.request_of("bob"))
    with pace.work_of("alice"):
        pace.give_way_in_thread()

    assert len(slept) == 3


def test_a_rest_ends_although_others_call_all_the_time(slept: list[float]) -> None:
    with pace.work_of("alice"), pace.request_of("bob"):
        pace.give_way_in_thread()

    assert 0 < sum(slept) <= 0.05


def test_work_does_not_rest_for_a_request_that_waits_for_nextcloud_or_a_user(
    monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    now = time.monotonic()
    with pace.work_of("alice"), pace.request_of("bob"):
        monkeypatch.setattr(pace.time, "monotonic", lambda: now + 1)
        pace.give_way_in_thread()

    assert not slept


def test_work_that_belongs_to_no_user_rests_for_everyone(slept: list[float]) -> None:
    with pace.request_of("alice"):
        pace.give_way_in_thread()

    assert slept


async def test_work_in_a_thread_belongs_to_the_user_of_the_call(slept: list[float]) -> None:
    with pace.request_of("alice"):
        with pace.work_of("alice"):
            await to_thread.run_sync(pace.give_way_in_thread)
        assert not slept
        with pace.work_of("bob"):
            await to_thread.run_sync(pace.give_way_in_thread)

    assert slept


@pytest.mark.parametrize("user", ["alice", "bob"])
async def test_work_in_the_event_loop_lets_others_run_and_rests_for_other_users_alone(
    monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    ran, slept, sleep = anyio.Event(), list[float](), anyio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    async def other() -> None:
        ran.set()

    monkeypatch.setattr(pace.anyio, "sleep", noted)
    async with anyio.create_task_group() as group:
        group.start_soon(other)
        with pace.work_of("alice"), pace.request_of(user):
            await pace.give_way()
        assert ran.is_set()

    assert bool(slept) is (user != "alice")
