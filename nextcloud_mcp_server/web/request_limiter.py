"""Limits of one user and of one client at the MCP endpoint: requests per minute, calls, streams.

A request that comes too fast waits, and is refused if the wait would be too long. A refusal is delayed for a
moment, so that a program that retries at once does so at this server's pace. Counts are kept in memory, per
process.
"""

import math
from collections.abc import AsyncGenerator, Generator, Hashable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import anyio

from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import TooManyRequests
from nextcloud_mcp_server.web.fair_queue import FairQueue

#: A body counts as one more request for so many bytes, and for so many elements.
_BYTES_OF_ONE = 131_072
_ELEMENTS_OF_ONE = 1_000
#: Up to so many bytes a body does not count as large.
LARGE_BODY = 262_144
_MOST_SHARES = 16_384
#: The delay of a refusal grows by its base for so many refusals that wait at the same time.
_REFUSALS_AT_ONCE = 32
#: Each refusal that waits keeps its request in memory, also after its client has gone; so no more of one user wait.
_MOST_REFUSALS = 512


@dataclass(frozen=True, slots=True)
class RequestRates:
    """The limits of one user; one client of this user gets half of each.

    `burst` requests may come at once, and `per_minute` after that; faster ones wait, `wait_seconds` at most.
    `calls` are handled at once, and of `large_bodies` read at once; `streams` stay open.
    """

    per_minute: int = 1_200
    burst: int = 200
    calls: int = 32
    streams: int = 32
    large_bodies: int = 2
    wait_seconds: float = 10.0
    refusal_seconds: float = 1.0

    def half(self) -> "RequestRates":
        """Return the limits of one client."""
        return RequestRates(
            per_minute=max(1, self.per_minute // 2),
            burst=max(1, self.burst // 2),
            calls=max(1, self.calls // 2),
            streams=max(1, self.streams // 2),
            large_bodies=max(1, self.large_bodies // 2),
        )


class _Share:
    """What one user or one client uses of its limits."""

    def __init__(self, rates: RequestRates) -> None:
        self._rates = rates
        self._interval = 60 / rates.per_minute
        # The time at which all requests would be done if each took one interval (GCRA).
        self._done_at = -math.inf
        self.calls = anyio.Semaphore(rates.calls)
        self.large_bodies = anyio.Semaphore(rates.large_bodies)
        self.streams = 0
        self.refusals = 0
        self.users = 0

    def wait(self, now: float) -> float:
        """Return how long the next request must wait."""
        return max(0.0, self._done_at - (self._rates.burst - 1) * self._interval - now)

    def charge(self, requests: int, now: float) -> None:
        """Count requests."""
        self._done_at = max(self._done_at, now) + requests * self._interval

    def has_room_for_call(self) -> bool:
        """Tell whether a call may wait for its place; as many may wait as are handled."""
        return self.calls.statistics().tasks_waiting < self._rates.calls

    def has_room_for_stream(self) -> bool:
        """Tell whether one more stream may be opened."""
        return self.streams < self._rates.streams

    def is_idle(self, now: float) -> bool:
        """Tell whether a new share would be the same as this one."""
        return not self.users and self._done_at <= now


@dataclass(frozen=True, slots=True)
class Admission:
    """An admitted request, with the shares of its user and its client."""

    bearer: Bearer
    person: _Share
    client: _Share
    queue: FairQueue
    rates: RequestRates

    @asynccontextmanager
    async def call(self) -> AsyncGenerator[None]:
        """Count the request among those that are handled, or wait for a place.

        Raises:
            TooManyRequests: Too many wait already.
        """
        if not (self.client.has_room_for_call() and self.person.has_room_for_call()):
            raise await self.refusal(self.rates.refusal_seconds)
        async with self.client.calls, self.person.calls:
            yield

    @asynccontextmanager
    async def large_body(self) -> AsyncGenerator[None]:
        """Count the request among those with a large body, which need memory, or wait for a place."""
        async with self.client.large_bodies, self.person.large_bodies:
            yield

    def charge_body(self, size: int, elements: int) -> None:
        """Count the cost of a body beyond a small one."""
        requests, now = size // _BYTES_OF_ONE + elements // _ELEMENTS_OF_ONE, anyio.current_time()
        self.person.charge(requests, now)
        self.client.charge(requests, now)

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Wait for the turn of this user among all users."""
        async with self.queue.slot(self.bearer.principal):
            yield

    @asynccontextmanager
    async def stream(self) -> AsyncGenerator[None]:
        """Count a stream for as long as it is open.

        Raises:
            TooManyRequests: This user or this client has too many open.
        """
        if not (self.client.has_room_for_stream() and self.person.has_room_for_stream()):
            raise await self.refusal(self.rates.refusal_seconds)
        self.client.streams += 1
        self.person.streams += 1
        try:
            yield
        finally:
            self.client.streams -= 1
            self.person.streams -= 1

    async def refusal(self, wait: float) -> TooManyRequests:
        """Return the exception of a refusal, after a delay; at once if too many of this user wait already."""
        if self.person.refusals < _MOST_REFUSALS:
            self.person.refusals += 1
            try:
                await anyio.sleep(self.rates.refusal_seconds * (1 + self.person.refusals / _REFUSALS_AT_ONCE))
            finally:
                self.person.refusals -= 1
        seconds = max(1, math.ceil(wait))
        return TooManyRequests(
            "Too many requests of this client, or of all clients of this person together; "
            f"wait {seconds} seconds, then try again.",
            retry_after_seconds=seconds,
        )


class RequestLimiter:
    """Decides whether and when a request with a verified token begins."""

    def __init__(self, rates: RequestRates | None = None, *, queue: FairQueue | None = None) -> None:
        self._of_person = rates or RequestRates()
        self._of_client = self._of_person.half()
        self._queue = queue or FairQueue()
        self._shares: dict[Hashable, _Share] = {}
        self._most_shares = _MOST_SHARES

    @property
    def remembered(self) -> int:
        """How many users and clients have a share."""
        return len(self._shares)

    @asynccontextmanager
    async def admit(self, bearer: Bearer) -> AsyncGenerator[Admission]:
        """Admit a request, at once or after a wait, within the limits of its user and its client.

        Raises:
            TooManyRequests: The wait would be too long.
        """
        with (
            self._share(bearer.principal, self._of_person) as person,
            self._share((bearer.principal, bearer.client_id), self._of_client) as client,
        ):
            admission = Admission(bearer, person, client, self._queue, self._of_person)
            now = anyio.current_time()
            wait = max(person.wait(now), client.wait(now))
            if wait > self._of_person.wait_seconds:
                raise await admission.refusal(wait)
            person.charge(1, now)
            client.charge(1, now)
            await anyio.sleep(wait)
            yield admission

    @contextmanager
    def _share(self, key: Hashable, rates: RequestRates) -> Generator[_Share]:
        if len(self._shares) >= self._most_shares:
            now = anyio.current_time()
            self._shares = {one: share for one, share in self._shares.items() if not share.is_idle(now)}
            self._most_shares = max(_MOST_SHARES, 2 * len(self._shares))
        share = self._shares.setdefault(key, _Share(rates))
        share.users += 1
        try:
            yield share
        finally:
            share.users -= 1
