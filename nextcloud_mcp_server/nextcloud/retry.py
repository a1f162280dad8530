"""Decides which requests are repeated after a transient error, and how often.

    refusal                  reading   guarded or idempotent   replaces itself   anything else
    423; 503 with a wait     3 more    3 more                  5 more            none
    502, 503                 2 more    2 more, guarded alone   3 more            none
    504, broken connection   2 more    none                    1 more            none

A write is guarded when it is conditional (`If-Match`, `If-None-Match`, `Overwrite: F`): repeated after success, it is
refused. PUT and DELETE are idempotent (RFC 9110 §9.2.2), but a repetition would overwrite what another client wrote
in between. So they are not repeated unguarded where the first request may have been carried out. A chunk of an upload
replaces itself.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from json import loads
from typing import Final, TypeVar, cast

import httpx2

from nextcloud_mcp_server import errors

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

READING: Final = frozenset({"GET", "HEAD", "OPTIONS", "PROPFIND", "REPORT", "SEARCH"})
#: A longer wait is reported to the client instead.
LONGEST_WAIT_SECONDS: Final = 10.0
_IN_ALL_SECONDS: Final = 45.0
_PAUSES: Final = (0.3, 0.6, 1.2, 2.4, 4.8)


class Kind(Enum):
    """How a request may be repeated: it reads, is guarded, is idempotent, replaces itself, or never."""

    READING = "reading"
    GUARDED = "guarded"
    IDEMPOTENT = "idempotent"
    REPLACES = "replaces"
    ONCE = "once"


class Cause(Enum):
    """The transient error: a refusal (nothing was done), an error of a gateway, or no response."""

    REFUSED = "refused"
    GATEWAY = "gateway"
    LOST = "lost"


_REPEATS: Final[Mapping[Kind, Mapping[Cause, int]]] = {
    Kind.READING: {Cause.REFUSED: 3, Cause.GATEWAY: 2, Cause.LOST: 2},
    Kind.GUARDED: {Cause.REFUSED: 3, Cause.GATEWAY: 2, Cause.LOST: 0},
    Kind.IDEMPOTENT: {Cause.REFUSED: 3, Cause.GATEWAY: 0, Cause.LOST: 0},
    Kind.REPLACES: {Cause.REFUSED: 5, Cause.GATEWAY: 3, Cause.LOST: 1},
    Kind.ONCE: {Cause.REFUSED: 0, Cause.GATEWAY: 0, Cause.LOST: 0},
}


@dataclass(frozen=True, slots=True)
class Passing:
    """A transient error, and the seconds that Nextcloud asks to wait, if it does."""

    cause: Cause
    wait: float | None = None


class PassingError(Exception):
    """Carries a transient error to the retry loop, and no further."""

    def __init__(self, error: errors.NextcloudError, passing: Passing) -> None:
        super().__init__(str(error))
        self.error = error
        self.passing = passing


def kind_of(method: str, path: str, headers: Mapping[str, str]) -> Kind:
    """Return how a request may be repeated."""
    names = {name.lower(): value for name, value in headers.items()}
    if method in READING:
        return Kind.READING
    over_dav = path.startswith("/remote.php/")
    guarded = "if-match" in names or "if-none-match" in names or names.get("overwrite") == "F"
    # A repeated MKCOL answers that the folder exists, a repeated DELETE that the resource is gone.
    if guarded or (over_dav and method in {"MKCOL", "DELETE"}):
        return Kind.GUARDED
    if method in {"PUT", "DELETE"} or (over_dav and method in {"MOVE", "COPY", "PROPPATCH"}):
        return Kind.IDEMPOTENT
    return Kind.ONCE


class Retrier:
    """Sends one request until it is answered or must not be repeated.

    `in_doubt` is set once an attempt may have been carried out without a response.
    """

    def __init__(self, kind: Kind) -> None:
        self.in_doubt = False
        self._repeats = _REPEATS[kind]
        # A chunk may take minutes, and is worth another attempt even after that.
        self._seconds = None if kind is Kind.REPLACES else _IN_ALL_SECONDS
        self._writing = kind is not Kind.READING
        self._made = 0

    async def run(self, send: Callable[[], Awaitable[_T]]) -> _T:
        """Send the request, and repeat it while allowed.

        Raises:
          NextcloudError: The last transient error, or a permanent one.
        """
        try:
            return await send()
        except PassingError as first:
            # Most requests need no repetition, and loading the library takes a twentieth of the start.
            if not self._goes_on(first):
                raise first.error from None
            begun = first
        try:
            return await self._again(send, begun)
        except PassingError as last:
            raise last.error from None

    async def _again(self, send: Callable[[], Awaitable[_T]], begun: PassingError) -> _T:
        import stamina  # noqa: PLC0415 - see above
        from stamina.instrumentation import LoggingOnRetryHook, set_on_retry_hooks  # noqa: PLC0415 - see above

        # stamina would choose structlog where it is installed, which prints to stdout, where only MCP messages may go.
        # The log names the last error of a request; an operator who needs each attempt sets the level to debug.
        set_on_retry_hooks([LoggingOnRetryHook] if logger.isEnabledFor(logging.DEBUG) else [])
        known: PassingError | None = begun

        async def attempt() -> _T:
            nonlocal known
            if known is not None:
                # The first attempt was made before; raising its error makes the library wait before the next.
                failed, known = known, None
                raise failed
            return await send()

        most = max(self._repeats.values()) + 1
        caller = stamina.AsyncRetryingCaller(attempts=most, timeout=self._seconds)
        return await caller(self._pause, attempt)

    def _goes_on(self, error: Exception) -> bool:
        """Tell whether an error is followed by another attempt."""
        if not isinstance(error, PassingError):
            return False
        wait = error.passing.wait
        return self._made < self._repeats[error.passing.cause] and (
            wait is None or wait <= LONGEST_WAIT_SECONDS
        )

    def _pause(self, error: Exception) -> bool | float:
        if not isinstance(error, PassingError) or not self._goes_on(error):
            return False
        passing = error.passing
        self.in_doubt |= self._writing and passing.cause is not Cause.REFUSED
        first = self._made == 0
        self._made += 1
        if passing.wait is not None:
            return max(passing.wait, _PAUSES[0])
        if first and passing.cause is Cause.LOST:
            # Usually only an idle connection was closed.
            return 0.001
        # Random, to spread requests that met the same lock.
        return _PAUSES[self._made - 1] * random.uniform(0.7, 1.3)  # noqa: S311 - not a secret


def holds(found: httpx2.Response, *, json: object, content: bytes | str | None) -> bool:
    """Tell whether the stored state is what a change sent: the same bytes, or each field."""
    if content is not None:
        return found.content == (content.encode() if isinstance(content, str) else content)
    try:
        there: object = loads(found.content)
    except ValueError:
        return False
    if not isinstance(there, dict) or not isinstance(json, dict):
        return False
    now, sent = cast("dict[str, object]", there), cast("dict[str, object]", json)
    return bool(sent) and all(name in now and now[name] == value for name, value in sent.items())
