"""Starts the requests of many users in turns, one user after the other.

One process does one thing at a time. Without turns, a hundred concurrent requests of one user run before the
next request of another user.
"""

from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

#: Requests that may be in their first moment at once; more than a few bring no gain, as the processor is busy.
MOST_FRESH = 4

#: A request that takes longer waits for Nextcloud or for a user, and delays no other request.
FRESH_SECONDS = 0.05


@dataclass(eq=False, slots=True)
class _Ticket:
    person: Hashable
    woken: anyio.Event = field(default_factory=anyio.Event)
    begun_at: float | None = None


class FairQueue:
    """A round robin of users; the requests of one user start in the order of their arrival.

    A request counts from its turn until it ends, and for `fresh_seconds` at most.
    """

    def __init__(self, *, most_fresh: int = MOST_FRESH, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._most_fresh = most_fresh
        self._fresh_seconds = fresh_seconds
        self._waiting: OrderedDict[Hashable, deque[_Ticket]] = OrderedDict()
        self._fresh: OrderedDict[_Ticket, float] = OrderedDict()
        # One of the waiting requests watches the clock for all of them.
        self._watcher: _Ticket | None = None

    @asynccontextmanager
    async def slot(self, person: Hashable) -> AsyncGenerator[None]:
        """Wait for a turn, and hold it while the request is handled."""
        ticket = _Ticket(person)
        self._waiting.setdefault(person, deque()).append(ticket)
        self._let_begin()
        try:
            while ticket.begun_at is None:
                await self._wait(ticket)
            self._pass_watch_on(ticket)
            yield
        finally:
            self._leave(ticket)

    async def _wait(self, ticket: _Ticket) -> None:
        if self._watcher is None:
            self._watcher = ticket
        left = self._until_one_ages() if self._watcher is ticket else None
        with anyio.move_on_after(left):
            await ticket.woken.wait()
        ticket.woken = anyio.Event()
        self._let_begin()

    def _until_one_ages(self) -> float:
        oldest = next(iter(self._fresh.values()), anyio.current_time())
        return max(0.0, oldest + self._fresh_seconds - anyio.current_time())

    def _let_begin(self) -> None:
        now = anyio.current_time()
        while self._fresh and next(iter(self._fresh.values())) + self._fresh_seconds <= now:
            self._fresh.popitem(last=False)
        while self._waiting and len(self._fresh) < self._most_fresh:
            person, tickets = next(iter(self._waiting.items()))
            ticket = tickets.popleft()
            ticket.begun_at = self._fresh[ticket] = now
            ticket.woken.set()
            # The next turn of this user comes after those of all other waiting users.
            del self._waiting[person]
            if tickets:
                self._waiting[person] = tickets

    def _leave(self, ticket: _Ticket) -> None:
        self._fresh.pop(ticket, None)
        waiting = self._waiting.get(ticket.person)
        if ticket.begun_at is None and waiting is not None:
            waiting.remove(ticket)
            if not waiting:
                del self._waiting[ticket.person]
        self._let_begin()
        self._pass_watch_on(ticket)

    def _pass_watch_on(self, ticket: _Ticket) -> None:
        if self._watcher is ticket:
            self._watcher = None
        # The request that was woken to watch may have got its turn before it began to watch.
        if self._watcher is None and self._waiting:
            next(iter(self._waiting.values()))[0].woken.set()
