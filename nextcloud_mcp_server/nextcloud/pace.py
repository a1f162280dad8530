"""Long work of one user gives way to the requests of others, which are short.

One process does one thing at a time. So a long list is parsed in pieces, and between two of them the work rests while a
request of another user has just begun. Without others it does not rest; beside others who call all the time it takes
several times as long.
"""

import time
from collections.abc import Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import anyio
from anyio import lowlevel

#: The rest after a piece, which takes a millisecond or less, has so many steps at most.
_MOST_STEPS: Final = 20
_STEP_SECONDS: Final = 0.0005
#: A request that takes longer waits for Nextcloud or for a user, and no work gives way to it any more.
FRESH_SECONDS: Final = 0.25

#: The user and the time of the beginning of each request that is handled, in the order of these times.
_BEGUN: Final = dict[object, tuple[Hashable, float]]()
_USER: Final = ContextVar[Hashable]("user", default=None)


@contextmanager
def request_of(user: Hashable) -> Generator[None]:
    """Let the long work of other users give way to this request."""
    request = object()
    _BEGUN[request] = (user, time.monotonic())
    try:
        yield
    finally:
        del _BEGUN[request]


@contextmanager
def work_of(user: Hashable) -> Generator[None]:
    """Surround a call of this user: its long work does not give way to the user's own requests."""
    token = _USER.set(user)
    try:
        yield
    finally:
        _USER.reset(token)


async def give_way() -> None:
    """End a piece of work in the event loop: others have their turn, and the work rests while they have requests."""
    await lowlevel.checkpoint()
    for _ in range(_MOST_STEPS):
        if not others_began():
            return
        await anyio.sleep(_STEP_SECONDS)


def give_way_in_thread() -> None:
    """End a piece of work as `give_way` does, in a thread beside the event loop."""
    for _ in range(_MOST_STEPS):
        if not others_began():
            return
        time.sleep(_STEP_SECONDS)


def others_began() -> bool:
    """Tell whether a request of another user than the one of this call has just begun, and has not ended."""
    user, since = _USER.get(), time.monotonic() - FRESH_SECONDS
    # A copy: the event loop adds and removes requests while a thread looks.
    return any(who != user and began > since for who, began in list(_BEGUN.values()))
