"""Does long work on texts in a thread, so that other requests are served meanwhile.

It also bounds how many edits of whole texts one user has at once.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread

#: Texts of so many characters together are worked on at once: that takes less time than a thread.
_SHORT: Final = 100_000
Result = TypeVar("Result")


#: An edit holds a text of up to megabytes, several times.
_EDITS_AT_ONCE: Final = 2


class _UserSlot:
    """The one place of a user for long work, and the places for edits: others of the same user wait."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.edits = anyio.Semaphore(_EDITS_AT_ONCE, fast_acquire=True)


_SLOTS: Final = WeakValueDictionary[str, _UserSlot]()


@asynccontextmanager
async def editing(uid: str) -> AsyncGenerator[None]:
    """Surround an edit of a whole text, from reading it to writing it.

    Many edits of one user would hold hundreds of megabytes. No edit waits for another one while it has a place.
    """
    slot = _SLOTS.setdefault(uid, _UserSlot())
    async with slot.edits:
        yield


async def aside(work: Callable[[], Result], *, uid: str, size: int | None = None) -> Result:
    """Do long work on texts in a thread; one at a time for each user `uid`.

    Many threads of one user would take nearly all processor time, and all threads that there are. Where the number of
    characters is known as `size`, short work is done at once.
    """
    if size is not None and size < _SHORT:
        return work()
    slot = _SLOTS.setdefault(uid, _UserSlot())
    async with slot.lock:
        return await to_thread.run_sync(work)
