"""Does long work on texts in a thread, so that other requests are served meanwhile."""

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial
from heapq import merge
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread

from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.nextcloud import pace

#: Texts of so many characters together are worked on at once: that takes less time than a thread.
SHORT: Final = 100_000
#: What is read of one item of a list, where that is not counted: its name, or a few numbers.
_ITEM: Final = 64
_SORTED_AT_ONCE: Final = 2_000
Item = TypeVar("Item")
Result = TypeVar("Result")


class _UserSlot:
    """The one place of a user in a thread: other work of the same user waits."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        #: Of the work that makes objects of responses one waits for the place. What waits behind it holds its objects.
        self.parsing = anyio.Lock()


_SLOTS: Final = WeakValueDictionary[str, _UserSlot]()


async def aside(
    work: Callable[[], Result], *, uid: str, size: int | None = None, is_parsing: bool = False
) -> Result:
    """Do long work on texts in a thread; one at a time for each user `uid`.

    Many threads of one user would take nearly all processor time, and all threads that there are. Where the number of
    characters is known as `size`, short work is done at once. Work that parses a response waits behind work on what
    was parsed before, so that few parsed responses are in memory.
    """
    if size is not None and size < SHORT:
        return work()
    slot = _SLOTS.setdefault(uid, _UserSlot())
    async with slot.parsing if is_parsing else nullcontext(), slot.lock:
        return await _in_thread(work)


async def _in_thread(work: Callable[[], Result]) -> Result:
    found = await to_thread.run_sync(_outcome, work)
    if isinstance(found, _Failed):
        try:
            raise found.error
        finally:
            # The error keeps this frame, which must not keep the error.
            del found
    return found


class _Failed(NamedTuple):
    """A refusal without the frames in which it was raised: they hold what the work had made, which may be megabytes."""

    error: NextcloudMcpError


def _outcome(work: Callable[[], Result]) -> Result | _Failed:
    try:
        return work()
    except NextcloudMcpError as error:  # others are faults of this server, whose frames the log shows
        error.__context__ = None
        return _Failed(error.with_traceback(None))


async def aside_for(items: Collection[object], work: Callable[[], Result], *, uid: str) -> Result:
    """Do work on the names or numbers of all these items as `aside` does: where they are many, in a thread."""
    return await aside(work, uid=uid, size=_ITEM * len(items))


async def sorted_aside(items: Sequence[Item], key: Callable[[Item], Any], *, uid: str) -> list[Item]:
    """Sort items as `sorted` does; where they are many, in a thread and in pieces."""
    return await aside_for(items, partial(_sorted, items, key), uid=uid)


def _sorted(items: Sequence[Item], key: Callable[[Item], Any]) -> list[Item]:
    """Sort in pieces: `sorted` lets no other thread run until it has compared all."""
    if len(items) <= _SORTED_AT_ONCE:
        return sorted(items, key=key)
    pieces = list[list[Item]]()
    for start in range(0, len(items), _SORTED_AT_ONCE):
        pieces.append(sorted(items[start : start + _SORTED_AT_ONCE], key=key))
        pace.give_way_in_thread()
    return list(merge(*pieces, key=key))
