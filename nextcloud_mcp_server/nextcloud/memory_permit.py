"""The permit to hold much content in memory: one call of a user has it at a time, from when it needs it to its end.

A response of 12 MB takes several times that once it is parsed, a text ten times that in an edit, and a search holds
many: a user's calls at once would hold gigabytes. Other users never wait for it.

A call needs the permit when the responses that the user's calls hold without it are large together: many small ones,
such as those of a search in twenty places, hold as much as one large response. With the permit, too, they are limited.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Self
from weakref import WeakValueDictionary

import anyio

from nextcloud_mcp_server import errors

#: The bytes of responses that a user's calls hold together without the permit. Nearly all hold less than a hundredth.
LARGE_BYTES: Final = 4_194_304
#: The bytes of all responses of one call, unless it says with `dropped` that it keeps less. One may have nearly all.
MOST_BYTES: Final = 16_777_216
#: A list that is parsed while it arrives needs the permit only beyond so many bytes: what is kept of it takes less.
LARGE_LIST_BYTES: Final = 1_048_576
#: So many changes of a user may wait for the permit after their responses have begun. Each of them keeps one of the
#: connections that all users share.
MOST_OPEN_CHANGES: Final = 4


class _User:
    """The one permit of a user, and the bytes of the responses that calls hold without it."""

    def __init__(self) -> None:
        self.permit = anyio.Semaphore(1, fast_acquire=True)
        self.held = 0
        #: The changes that wait for the permit and keep their connections.
        self.open_changes = 0


class _Call:
    """One call; its parts, which may run in parallel, share the permit."""

    def __init__(self) -> None:
        self._taking = anyio.Lock(fast_acquire=True)
        self._user: _User | None = None
        self.has_permit = False
        self.has_ended = False
        #: The bytes of the responses that it may still hold.
        self.held = 0
        #: Its large lists are parsed one after the other, since one entry may take tens of megabytes.
        self.list_turn = anyio.Lock(fast_acquire=True)

    def user(self, uid: str) -> _User:
        if self._user is None:
            self._user = _USERS.setdefault(uid, _User())
        return self._user

    def add(self, uid: str, size: int) -> None:
        self.held += size
        if not self.has_permit:
            self.user(uid).held += size

    def drop(self) -> None:
        if self._user is not None and not self.has_permit:
            self._user.held -= self.held
        self.held = 0

    def take_now(self, uid: str) -> bool:
        if not self.has_permit:
            user = self.user(uid)
            try:
                user.permit.acquire_nowait()
            except anyio.WouldBlock:
                return False
            self._took(user)
        return True

    async def take(self, uid: str) -> None:
        async with self._taking:
            if not self.take_now(uid):
                user = self.user(uid)
                await user.permit.acquire()
                if self.has_ended:
                    # Work that outlived its call waited; nobody would give the permit back.
                    user.permit.release()
                else:
                    self._took(user)

    def _took(self, user: _User) -> None:
        self.has_permit = True
        user.held -= self.held

    def end(self) -> None:
        self.has_ended = True
        if self._user is None:
            return
        if self.has_permit:
            self._user.permit.release()
        else:
            self._user.held -= self.held


_USERS: Final = WeakValueDictionary[str, _User]()
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


async def take_for_change(uid: str) -> None:
    """Wait as `take` does, for the response to a change, which has begun and so keeps its connection."""
    user = _USERS.setdefault(uid, _User())
    user.open_changes += 1
    try:
        await take(uid)
    finally:
        user.open_changes -= 1


def may_change(uid: str) -> bool:
    """Tell whether the current call may send a change now; False if it has to take the permit before.

    Otherwise the changes of a few users could keep all connections.
    """
    call, user = _current(), _USERS.get(uid)
    return call is None or call.has_permit or user is None or user.open_changes < MOST_OPEN_CHANGES


def dropped() -> None:
    """Say that the current call keeps nothing of the responses so far, or counts what it keeps in `HeldBytes`."""
    call = _current()
    if call is not None:
        call.drop()


class ResponseBytes:
    """Counts the bytes of one response of the user `uid` while it is read; they are given back if that fails.

    `wait` is awaited once, when the user's responses have become large: after it the call has the permit. The response
    to a change is counted, and not refused: the change is made by then.
    """

    def __init__(self, uid: str, wait: Callable[[], Awaitable[None]], *, is_change: bool = False) -> None:
        self._uid = uid
        self._is_change = is_change
        self._call = _current()
        self._wait = wait
        self._counted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._call is not None and not self._call.has_ended:
            self._call.add(self._uid, -self._counted)

    def most(self, max_bytes: int) -> int:
        """Return how many bytes this response may have now, of at most `max_bytes`."""
        call = self._call
        if call is None or (self._is_change and call.has_permit):
            return max_bytes
        free = MOST_BYTES - call.held if call.has_permit else LARGE_BYTES - call.user(self._uid).held
        return min(max_bytes, self._counted + max(0, free))

    async def count(self, size: int) -> None:
        """Count this response, which has `size` bytes by now; wait for the permit where the call needs it.

        Raises:
          TooLarge: The responses of the call are too large together.
        """
        call = self._call
        if call is None or call.has_ended:
            return
        call.add(self._uid, size - self._counted)
        self._counted = size
        if not call.has_permit and call.user(self._uid).held > LARGE_BYTES:
            await self._wait()
        if call.held > MOST_BYTES and not self._is_change:
            raise errors.TooLarge(
                "Nextcloud's answers are larger together than this server holds for one call. Ask for less."
            )


class ListTurn:
    """The turn of one large list of the user `uid`: one call has it at a time, and one part of that call."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._call = _current()
        self._is_mine = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_mine and self._call is not None:
            self._call.list_turn.release()

    def take_now(self) -> bool:
        """Take the turn if it is free; True where there is nothing to wait for."""
        if self._call is None or self._is_taken_here:
            return True
        if not self._call.take_now(self._uid) or self._call.list_turn.locked():
            return False
        self._call.list_turn.acquire_nowait()
        self._is_mine = True
        return True

    async def take(self) -> None:
        """Wait for the turn."""
        if self._call is not None:
            await self._call.take(self._uid)
            await self._call.list_turn.acquire()
            self._is_mine = True

    @property
    def _is_taken_here(self) -> bool:
        # A list within a list.
        call = self._call
        return call is not None and call.list_turn.statistics().owner == anyio.get_current_task()
