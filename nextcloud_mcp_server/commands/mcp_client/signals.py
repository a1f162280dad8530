"""Ends a command that is told to end by a signal, with all that it has started."""

import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import anyio
from anyio.abc import TaskStatus

_Result = TypeVar("_Result")


async def until_told_to_end(
    action: Callable[[], Awaitable[_Result]], *, exit_code: int | None = None
) -> _Result:
    """Do something; on SIGTERM or SIGHUP cancel it, and exit once it has cleaned up.

    Without an exit code it is the one that shells give to a command which such a signal has ended.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        return await action()
    # `nohup` ignores SIGHUP, and so do we then.
    signals = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    received: list[signal.Signals] = []

    async def watch(*, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*signals) as caught:
            task_status.started()
            async for one in caught:
                received.append(one)
                group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            await group.start(watch)
            result = await action()
            group.cancel_scope.cancel()
            return result
    except BaseExceptionGroup as errors:
        # The watch raises nothing, so there is one: what the action raised.
        error = errors.exceptions[0]
        raise error from error.__cause__
    # A thread may still wait for input, and an exit in the usual way would wait for the thread.
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(128 + received[0] if exit_code is None else exit_code)
