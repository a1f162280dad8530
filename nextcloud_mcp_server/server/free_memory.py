"""Gives free memory back to the operating system from time to time.

glibc's allocator gives back only what is free at the end of its heap. Each read from a connection takes 256 KB for a
moment (asyncio's size of a read), and what is allocated meanwhile stays behind it, so the heap gets holes: after
20,000 calls 25 MB of them, as much as all that is in use. `malloc_trim` gives the pages inside the holes back, in 2 to
5 ms for such a heap. Other allocators, such as those of musl and macOS, do so by themselves or cannot be asked.
"""

import ctypes
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio

#: Between two times. A busy server gains 2 MB of holes in a minute.
SECONDS: Final = 60.0


def find_trim() -> Callable[[int], object] | None:
    """Return the function of the C library that gives memory back; None where it has none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        # Windows has no library of this name, and musl and macOS no such function.
        return None


@asynccontextmanager
async def given_back(
    *, seconds: float = SECONDS, find: Callable[[], Callable[[int], object] | None] = find_trim
) -> AsyncGenerator[None]:
    """Give free memory back again and again while the block runs."""
    async with anyio.create_task_group() as group:
        trim = find()
        if trim is not None:
            group.start_soon(_again_and_again, trim, seconds)
        try:
            yield
        finally:
            group.cancel_scope.cancel()


async def _again_and_again(trim: Callable[[int], object], seconds: float) -> None:
    while True:
        await anyio.sleep(seconds)
        # 0: keep no spare memory at the end of the heap.
        trim(0)
