"""Caches one fetched value that all users share.

One task fetches it; the old value is used while its source is down.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import anyio

from nextcloud_mcp_server.errors import ConfigurationError, IssuerUnavailable

_T = TypeVar("_T")

#: Pause after a failed fetch while there is an old value to use.
PAUSE_SECONDS = 30.0

#: Pause after a failed fetch while there is no value at all.
SHORT_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Ages:
    """For how long a value is used without a new fetch, and for how long while fetches fail."""

    fresh_seconds: float
    stale_seconds: float


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_T]):
    value: _T
    at: float


class Cached(Generic[_T]):
    """A value, with its age and the last failure."""

    def __init__(
        self, fetch: Callable[[], Awaitable[_T]], ages: Ages, *, monotonic: Callable[[], float]
    ) -> None:
        self._fetch = fetch
        self._ages = ages
        self._monotonic = monotonic
        self._lock = anyio.Lock()
        self._kept: _Kept[_T] | None = None
        # A new exception for each caller: one exception raised many times would grow a traceback without end.
        self._failure: Callable[[], Exception] = partial(
            IssuerUnavailable, "The identity provider does not answer."
        )
        self._next_try = 0.0
        self._next_renewal = 0.0

    async def get(self) -> _T:
        """Return the value; fetch it first if it is too old.

        Raises:
            IssuerUnavailable: The fetch failed, now or a moment ago, and the old value is too old.
            ConfigurationError: The same, and a later fetch will fail too.
        """
        kept = self._fresh(self._ages.fresh_seconds)
        if kept is None and self._lock.locked():
            # Another task fetches already; this one need not wait while the old value may be used.
            kept = self._fresh(self._ages.stale_seconds)
        kept = kept or await self._settled()
        if kept is None:
            raise self._failure()
        return kept.value

    async def renew(self) -> _T:
        """Fetch the value even if it is fresh, at most once in `PAUSE_SECONDS`; else return the cached value.

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
        # A cancelled caller must neither leave the others without an answer nor make them fetch again; the
        # request has a time limit of its own.
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
