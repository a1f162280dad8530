"""Does long work on texts in a thread, so that other requests are served meanwhile."""

from collections.abc import Callable
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread

#: Texts of so many characters together are worked on at once: that takes less time than a thread.
_SHORT: Final = 100_000
Result = TypeVar("Result")


class _UserSlot:
    """The one place of a user in a thread: other work of the same user waits."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()


_SLOTS: Final = WeakValueDictionary[str, _UserSlot]()


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
