"""The permit to hold much content in memory: one call of a user has it at a time, from when it needs it to its end.

A response of 32 MB takes several times that once it is parsed, a text ten times that in an edit, and a search holds
many: a user's calls at once would hold gigabytes. Other users never wait for it.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final
from weakref import WeakValueDictionary

import anyio

#: A response of up to so many bytes needs no permit. Nearly all are smaller.
LARGE_BYTES: Final = 262_144


class _Permit:
    """The one permit of a user."""

    def __init__(self) -> None:
        self.semaphore = anyio.Semaphore(1, fast_acquire=True)


class _Call:
    """One call; its parts, which may run in parallel, share the permit."""

    def __init__(self) -> None:
        self._taking = anyio.Lock(fast_acquire=True)
        self._permit: _Permit | None = None
        self.has_ended = False

    def take_now(self, uid: str) -> bool:
        if self._permit is None:
            permit = _PERMITS.setdefault(uid, _Permit())
            try:
                permit.semaphore.acquire_nowait()
            except anyio.WouldBlock:
                return False
            self._permit = permit
        return True

    async def take(self, uid: str) -> None:
        async with self._taking:
            if not self.take_now(uid):
                permit = _PERMITS[uid]
                await permit.semaphore.acquire()
                if self.has_ended:
                    # Work that outlived its call waited; nobody would give the permit back.
                    permit.semaphore.release()
                else:
                    self._permit = permit

    def end(self) -> None:
        self.has_ended = True
        if self._permit is not None:
            self._permit.semaphore.release()


_PERMITS: Final = WeakValueDictionary[str, _Permit]()
_CALL: Final = ContextVar[_Call | None]("call", default=None)


def _current() -> _Call | None:
    # A task that outlives the call in which it was started still has that call in its context.
    call = _CALL.get()
    return None if call is None or call.has_ended else call


@asynccontextmanager
async def of_call() -> AsyncGenerator[None]:
    """Surround a call: a permit that it takes is given back at its end. Within another call it is a part of that."""
    if _current() is not None:
        yield
        return
    call = _Call()
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)
        call.end()


def take_now(uid: str) -> bool:
    """Take the permit of the user `uid` for the current call if it is free; True where there is nothing to wait for.

    Outside of a call no permit is needed.
    """
    call = _current()
    return call is None or call.take_now(uid)


async def take(uid: str) -> None:
    """Wait until no other call of the user `uid` has the permit; the current call then has it until its end."""
    call = _current()
    if call is not None:
        await call.take(uid)
