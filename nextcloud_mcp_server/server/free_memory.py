"""Gives free memory back to the operating system from time to time.

glibc's allocator gives back only what is free at the end of its heap. Each read from a connection takes 256 KB for a
moment (asyncio's size of a read), and what is allocated meanwhile stays behind it, so the heap gets holes: after
20,000 calls 25 MB of them, as much as all that is in use. `malloc_trim` gives the pages inside the holes back, in 2 to
5 ms for such a heap. Other allocators, such as those of musl and macOS, do so by themselves or cannot be asked.

Blocks of megabytes are kept out of the heap: glibc maps each by itself and gives it back as soon as it is free. Left
alone it puts blocks of up to 32 MB into the heap once it has seen one, and a response of 12 MB took 25 MB more.
"""

import ctypes
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio

#: Between two times. A busy server gains 2 MB of holes in a minute.
SECONDS: Final = 60.0
#: Blocks of so many bytes stay out of the heap. A read from a connection is smaller.
LARGE_BYTES: Final = 1_048_576
#: Free memory at the end of the heap that stays with the process: a few reads.
_SPARE_BYTES: Final = 2_097_152
#: The parameters in `malloc.h` of glibc.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def find_trim() -> Callable[[int], object] | None:
    """Return the function of the C library that gives memory back; None where it has none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        # Windows has no library of this name, and musl and macOS no such function.
        return None


def keep_large_blocks_apart() -> None:
    """Keep large blocks out of the heap from now on, where the allocator can be asked."""
    try:
        set_parameter = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return
    set_parameter(_M_MMAP_THRESHOLD, LARGE_BYTES)
    set_parameter(_M_TRIM_THRESHOLD, _SPARE_BYTES)


@asynccontextmanager
async def given_back(
    *, seconds: float = SECONDS, find: Callable[[], Callable[[int], object] | None] = find_trim
) -> AsyncGenerator[None]:
    """Give free memory back again and again while the block runs."""
    async with anyio.create_task_group() as group:
        trim = find()
        keep_large_blocks_apart()
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
