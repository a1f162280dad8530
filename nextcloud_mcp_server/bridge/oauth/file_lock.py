"""Locks between the processes of one user, by locked files."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

from nextcloud_mcp_server.bridge.oauth.faults import TokenStoreFailed

_POLL_SECONDS: Final = 0.05


@asynccontextmanager
async def file_lock(path: Path, *, seconds: float) -> AsyncGenerator[None]:
    """Hold a lock while the block runs; the system releases it when the process ends.

    Raises:
      TokenStoreFailed: Another process held it all the time, or the file cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise TokenStoreFailed(
            f"The folder {path.parent} cannot be used for tokens: {error.strerror}."
        ) from None
    try:
        with anyio.move_on_after(seconds) as limit:
            # Asking again instead of waiting, so that the wait can be cancelled.
            while not _try_lock(opened):  # noqa: ASYNC110 - no event comes from another process
                await anyio.sleep(_POLL_SECONDS)
        if limit.cancelled_caught:
            raise TokenStoreFailed(
                "Another process of this program works on the same tokens and does not end; end it and try again."
            )
        try:
            yield
        finally:
            _unlock(opened)
    finally:
        os.close(opened)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(opened: int) -> bool:
        try:
            os.lseek(opened, 0, os.SEEK_SET)
            msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(opened: int) -> None:
        os.lseek(opened, 0, os.SEEK_SET)
        msvcrt.locking(opened, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(opened: int) -> bool:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(opened: int) -> None:
        fcntl.flock(opened, fcntl.LOCK_UN)
