import gc
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from threading import Lock, get_ident
from time import sleep

import anyio
import pytest

from nextcloud_mcp_server.errors import TooLarge
from nextcloud_mcp_server.nextcloud.aside import aside, aside_for, sorted_aside


@pytest.mark.parametrize(("size", "is_here"), [(None, False), (99_999, True), (100_000, False)])
async def test_only_work_on_short_texts_is_done_in_the_thread_of_the_event_loop(
    size: int | None, *, is_here: bool
) -> None:
    assert (await aside(get_ident, uid="alice", size=size) == get_ident()) is is_here


async def test_a_user_has_one_thread_at_a_time_and_another_user_one_too() -> None:
    at_once, most, running = Lock(), Counter[str](), Counter[str]()

    def slow(who: str) -> None:
        with at_once:
            running[who] += 1
            most[who] = max(most[who], running[who])
        sleep(0.02)
        with at_once:
            running[who] -= 1

    async with anyio.create_task_group() as group:
        for who in ("alice", "alice", "alice", "bob"):
            work: Callable[[], None] = partial(slow, who)
            group.start_soon(partial(aside, work, uid=who))

    assert most == {"alice": 1, "bob": 1}


class Large(list[int]):
    """What work has made when it fails."""


async def test_what_work_had_made_is_free_as_soon_as_its_error_is_handled() -> None:
    """Kept until the next full garbage collection, what refused lists had become took 800 MB."""
    made = list[weakref.ref[Large]]()

    def work() -> None:
        large = Large()
        made.append(weakref.ref(large))
        try:
            int("no number")
        except ValueError:
            raise TooLarge("too large") from None

    gc.disable()
    try:
        with pytest.raises(TooLarge, match="too large"):
            await aside(work, uid="alice")
        is_free = made[0]() is None
    finally:
        gc.enable()

    assert is_free


async def test_the_place_of_an_unexpected_error_in_a_thread_can_be_found_in_the_log() -> None:
    def work() -> None:
        raise KeyError("a fault")

    with pytest.raises(KeyError, match="a fault") as caught:
        await aside(work, uid="alice")

    assert "work" in [entry.name for entry in caught.traceback]


async def test_work_on_parsed_responses_comes_before_more_parsing() -> None:
    """A call that waits with a parsed response keeps it in memory."""
    done = list[str]()

    async def call() -> None:
        await aside(lambda: done.append("parsed"), uid="alice", is_parsing=True)
        await aside(lambda: done.append("sorted"), uid="alice")

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(call)

    held, most = 0, 0
    for each in done:
        held += 1 if each == "parsed" else -1
        most = max(most, held)
    assert len(done) == 16
    assert most <= 2


@pytest.mark.parametrize(("number", "is_here"), [(1_000, True), (2_000, False)])
async def test_only_work_on_many_items_is_done_in_a_thread(number: int, *, is_here: bool) -> None:
    assert (await aside_for(range(number), get_ident, uid="alice") == get_ident()) is is_here


@pytest.mark.parametrize("number", [0, 1, 1_999, 2_000, 2_001, 10_000])
async def test_a_list_is_sorted_as_python_sorts_whatever_its_length(number: int) -> None:
    """Items of equal rank keep their order."""
    items = [(each * 7_919 % 101, each) for each in range(number)]

    found = await sorted_aside(items, itemgetter(0), uid="alice")

    assert found == sorted(items, key=itemgetter(0))
