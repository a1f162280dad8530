import ctypes
import platform
import subprocess
import sys

import anyio
import pytest

from nextcloud_mcp_server.server.free_memory import (
    LARGE_BYTES,
    find_trim,
    given_back,
    keep_large_blocks_apart,
)


async def test_memory_is_given_back_again_and_again_while_the_server_runs() -> None:
    kept: list[int] = []
    third = anyio.Event()

    def trim(spare: int) -> None:
        kept.append(spare)
        if len(kept) == 3:
            third.set()

    with anyio.fail_after(60):
        async with given_back(seconds=0, find=lambda: trim):
            await third.wait()
    given = len(kept)
    await anyio.lowlevel.checkpoint()

    assert set(kept) == {0}
    assert len(kept) == given


async def test_without_such_an_allocator_the_server_runs_all_the_same() -> None:
    served = False

    async with given_back(seconds=0, find=lambda: None):
        await anyio.lowlevel.checkpoint()
        served = True

    assert served


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators cannot be asked")
def test_pages_inside_the_heap_are_given_back() -> None:
    trim = find_trim()

    assert trim is not None
    assert trim(0) in (0, 1)


@pytest.mark.parametrize("error", [OSError, TypeError, AttributeError])
def test_a_c_library_without_the_function_is_no_error(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def none(_: None) -> None:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", none)

    assert find_trim() is None
    keep_large_blocks_apart()


@pytest.mark.process
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators cannot be asked")
def test_a_large_block_is_given_back_at_once_whatever_was_freed_before() -> None:
    """glibc put blocks of a size that it had seen freed into its heap, where what lies behind them keeps them."""
    code = f"""
from nextcloud_mcp_server.server.free_memory import keep_large_blocks_apart
keep_large_blocks_apart()
def mapped():
    return int(open("/proc/self/statm").read().split()[0]) * 4096
bytearray({30 * LARGE_BYTES})
blocks = [bytearray({10 * LARGE_BYTES}) for _ in range(4)]
small = [bytearray(100_000) for _ in range(10)]
before = mapped()
del blocks
print((before - mapped()) // {LARGE_BYTES})
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert int(ran.stdout) >= 39
