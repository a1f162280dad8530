"""One value from elsewhere that every user shares: fetched by one at a time, kept while its source is down."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import anyio

from nextcloud_mcp_server.errors import ConfigurationError, IssuerUnavailable

_T = TypeVar("_T")

#: After a failure no one asks again for this long while there is something old to use.
PAUSE_SECONDS = 30.0

#: The same while there is nothing to use at all.
SHORT_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Ages:
    """For how long a value is used without asking, and how long while asking fails."""

    fresh_seconds: float
    stale_seconds: float


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_T]):
    value: _T
    at: float


class Cached(Generic[_T]):
    """The value, with what is known about its age."""

    def __init__(
        self, fetch: Callable[[], Awaitable[_T]], ages: Ages, *, monotonic: Callable[[], float]
    ) -> None:
        self._fetch = fetch
        self._ages = ages
        self._monotonic = monotonic
        self._lock = anyio.Lock()
        self._kept: _Kept[_T] | None = None
        # Made anew for each who asks: one exception raised by many would grow a trace without end.
        self._failure: Callable[[], Exception] = partial(
            IssuerUnavailable, "The identity provider is silent."
        )
        self._next_try = 0.0
        self._next_renewal = 0.0

    async def get(self) -> _T:
        """Return the value, fetched if it is older than it may be.

        Raises:
            IssuerUnavailable: It could not be fetched, now or a moment ago, and the old one is too old.
            ConfigurationError: The same, and asking again will not help.
        """
        kept = self._fresh(self._ages.fresh_seconds)
        if kept is None and self._lock.locked():
            # A user asks already: no one needs to wait for that while the old one will do.
            kept = self._fresh(self._ages.stale_seconds)
        kept = kept or await self._settled()
        if kept is None:
            raise self._failure()
        return kept.value

    async def renew(self) -> _T:
        """Fetch the value though it is fresh, but only once in `PAUSE_SECONDS`; else return what there is.

        Raises:
            IssuerUnavailable: As `get`.
            ConfigurationError: As `get`.
        """
        async with self._lock:
            now = self._monotonic()
            if self._next_renewal <= now:
                self._next_renewal = now + PAUSE_SECONDS
                await self._ask()
        return await self.get()

    async def _settled(self) -> _Kept[_T] | None:
        async with self._lock:
            if self._fresh(self._ages.fresh_seconds) is None:
                await self._ask()
            return self._fresh(self._ages.stale_seconds)

    def _fresh(self, seconds: float) -> _Kept[_T] | None:
        kept = self._kept
        return kept if kept is not None and self._monotonic() - kept.at < seconds else None

    async def _ask(self) -> None:
        if self._monotonic() < self._next_try:
            return
        # A caller that goes away while asking must neither leave the others without an answer nor have
        # them ask again; the request has a time limit of its own.
        with anyio.CancelScope(shield=True):
            try:
                self._kept = _Kept(await self._fetch(), self._monotonic())
            except IssuerUnavailable as error:
                self._failed(partial(IssuerUnavailable, str(error), status=error.status))
            except ConfigurationError as error:
                self._failed(partial(ConfigurationError, str(error)))

    def _failed(self, failure: Callable[[], Exception]) -> None:
        self._failure = failure
        self._next_try = self._monotonic() + (PAUSE_SECONDS if self._kept else SHORT_PAUSE_SECONDS)
