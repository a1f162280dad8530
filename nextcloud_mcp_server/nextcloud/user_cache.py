"""Recently seen facts about a user's account, so that a call need not request them one after another.

No user content is cached: only names and states of calendars and address books, the user's time zone and addresses,
the providers of the unified search, and the encodings of files.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from time import monotonic
from typing import Final, Literal, TypeVar, cast

from nextcloud_mcp_server.nextcloud.concurrency_limiter import ConcurrencyLimiter
from nextcloud_mcp_server.nextcloud.version import Version

Kind = Literal["VEVENT", "VTODO", "address books"]
Fact = Literal["zone", "addresses", "encryption", "providers"]

#: How long a fact is valid, in seconds: a time zone changed in Nextcloud is seen after this.
_SECONDS: Final = 300.0
#: With more calendars than this, they are requested after their list, as on the first call.
_MOST_NAMES: Final = 100
_MOST_PEOPLE: Final = 1_000
_MOST_FILES: Final = 100

_T = TypeVar("_T")


class SeenFiles:
    """What was found out about files that were read, each in one version of it; the oldest is dropped first."""

    def __init__(self, *, most: int = _MOST_FILES) -> None:
        self._most = most
        self._facts = OrderedDict[str, tuple[Version, object]]()

    def keep(self, path: str, version: Version, fact: object) -> None:
        """Store a fact about the file with this path, unless its version has no etag, and might be any."""
        self._facts.pop(path, None)
        if version.etag is None:
            return
        self._facts[path] = version, fact
        if len(self._facts) > self._most:
            self._facts.popitem(last=False)

    def take(self, kind: type[_T], path: str, version: Version) -> _T | None:
        """Return what is known of exactly this version; None for another one."""
        known, fact = self._facts.get(path, (None, None))
        return fact if known == version and isinstance(fact, kind) else None


class UserCache:
    """Recently seen facts about one user's account; `limiter` knows which credential works."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self.limiter: ConcurrencyLimiter | None = None
        self._states: dict[Kind, Mapping[str, str]] = {}
        self._facts: dict[Fact, tuple[float, object]] = {}
        self.files = SeenFiles()

    def states(self, kind: Kind) -> Mapping[str, str]:
        """Return the last seen collections of a kind with their states; these must be confirmed."""
        return self._states.get(kind, {})

    def saw(self, kind: Kind, states: Mapping[str, str]) -> None:
        """Store the collections of a kind, each with its state, or an empty one."""
        self._states[kind] = dict(islice(states.items(), _MOST_NAMES))

    async def fact(self, name: Fact, ask: Callable[[], Awaitable[_T]], *, anew: bool = False) -> _T:
        """Return a recently fetched fact, else, or `anew`, call `ask`; always the same type for a name."""
        now = self._clock()
        asked, value = self._facts.get(name, (None, None))
        if not anew and asked is not None and now - asked < _SECONDS:
            return cast("_T", value)
        found = await ask()
        self._facts[name] = (now, found)
        return found


class UserCaches:
    """The caches of all users, by uid; the least recently used is dropped first."""

    def __init__(self, *, most: int = _MOST_PEOPLE) -> None:
        self._most = most
        self._caches = OrderedDict[str, UserCache]()

    def drop(self, uid: str) -> None:
        """Drop the cache of one user."""
        self._caches.pop(uid, None)

    def of(self, uid: str) -> UserCache:
        """Return the cache of one user."""
        cache = self._caches.setdefault(uid, UserCache())
        self._caches.move_to_end(uid)
        if len(self._caches) > self._most:
            self._caches.popitem(last=False)
        return cache
