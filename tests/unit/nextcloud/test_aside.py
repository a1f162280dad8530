from collections import Counter
from collections.abc import Callable
from functools import partial
from threading import Lock, get_ident
from time import sleep

import anyio
import pytest

from nextcloud_mcp_server.nextcloud.aside import aside


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
