"""Which requests are sent again after a passing refusal, how often, and what is known when one of them was lost.

    refusal                  reading   guarded or idempotent   replaces itself   anything else
    423; 503 with a wait     3 more    3 more                  5 more            none
    502, 503                 2 more    2 more, guarded alone   3 more            none
    504, broken connection   2 more    none                    1 more            none

A write is guarded when it says what must be there (`If-Match`, `If-None-Match`, `Overwrite: F`): done
twice, it is refused the second time. PUT and DELETE are idempotent (RFC 9110 §9.2.2), but what another
writes in between would be overwritten, so where the first one may have been carried out it is not
repeated unguarded. A chunk of an upload replaces itself.
"""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from json import loads
from typing import Final, TypeVar, cast

import httpx2

from nextcloud_mcp_server import errors

_T = TypeVar("_T")

READING: Final = frozenset({"GET", "HEAD", "OPTIONS", "PROPFIND", "REPORT", "SEARCH"})
#: A longer wait is told, and not waited for.
LONGEST_WAIT_SECONDS: Final = 10.0
_IN_ALL_SECONDS: Final = 45.0
_PAUSES: Final = (0.3, 0.6, 1.2, 2.4, 4.8)


class Kind(Enum):
    """How a request may be sent again: it reads, is guarded, is idempotent, replaces itself, or not at all."""

    READING = "reading"
    GUARDED = "guarded"
    IDEMPOTENT = "idempotent"
    REPLACES = "replaces"
    ONCE = "once"


class Cause(Enum):
    """What passed: a refusal that nothing was done, a gateway's word in between, or an answer that never came."""

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
    """A refusal that may pass, and how many seconds Nextcloud asks to wait, if it says so."""

    cause: Cause
    wait: float | None = None


class PassingError(Exception):
    """Carries a failure that asking again may cure to the retry loop, and no further."""

    def __init__(self, error: errors.NextcloudError, passing: Passing) -> None:
        super().__init__(str(error))
        self.error = error
        self.passing = passing


def kind_of(method: str, path: str, headers: Mapping[str, str]) -> Kind:
    """Tell how a request may be sent again."""
    names = {name.lower(): value for name, value in headers.items()}
    if method in READING:
        return Kind.READING
    over_dav = path.startswith("/remote.php/")
    guarded = "if-match" in names or "if-none-match" in names or names.get("overwrite") == "F"
    # Making a folder twice says that it is there, and deleting twice that it is gone.
    if guarded or (over_dav and method in {"MKCOL", "DELETE"}):
        return Kind.GUARDED
    if method in {"PUT", "DELETE"} or (over_dav and method in {"MOVE", "COPY", "PROPPATCH"}):
        return Kind.IDEMPOTENT
    return Kind.ONCE


class Retrier:
    """Sends one request until it is answered, or may not be sent again; `in_doubt` once one may have worked."""

    def __init__(self, kind: Kind) -> None:
        self.in_doubt = False
        self._repeats = _REPEATS[kind]
        # A chunk may take minutes, and its bytes are worth another try after them.
        self._seconds = None if kind is Kind.REPLACES else _IN_ALL_SECONDS
        self._writing = kind is not Kind.READING
        self._made = 0

    async def run(self, send: Callable[[], Awaitable[_T]]) -> _T:
        """Send, and repeat.

        Raises:
            NextcloudError: The last refusal, or one that does not pass.
        """
        try:
            return await send()
        except PassingError as first:
            # Most requests need no second try, and the library costs a twentieth of the start.
            if not self._goes_on(first):
                raise first.error from None
            begun = first
        try:
            return await self._again(send, begun)
        except PassingError as last:
            raise last.error from None

    async def _again(self, send: Callable[[], Awaitable[_T]], begun: PassingError) -> _T:
        import stamina  # noqa: PLC0415 - see above

        known: PassingError | None = begun

        async def attempt() -> _T:
            nonlocal known
            if known is not None:
                # The try that was made before, so that the library waits after it.
                failed, known = known, None
                raise failed
            return await send()

        most = max(self._repeats.values()) + 1
        caller = stamina.AsyncRetryingCaller(attempts=most, timeout=self._seconds)
        return await caller(self._pause, attempt)

    def _goes_on(self, error: Exception) -> bool:
        """Tell whether a failure is followed by another try."""
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
            # Most often only a kept connection was closed meanwhile.
            return 0.001
        # Apart from those that met the same lock.
        return _PAUSES[self._made - 1] * random.uniform(0.7, 1.3)  # noqa: S311 - not a secret


def holds(found: httpx2.Response, *, json: object, content: bytes | str | None) -> bool:
    """Tell whether what is there now is what a change sent: the same bytes, or each field that was sent."""
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
