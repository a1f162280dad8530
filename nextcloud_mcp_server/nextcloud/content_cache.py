"""Content of users' accounts, cached in memory between calls with a size limit.

Cached content of a user is used only together with a response that Nextcloud has just given to that user's own
credential, and only where that response confirms that it is current. It is bound to the account's id, and dropped
when the access ends, when it was not used for a while, and when the limit is reached.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, Protocol, TypeVar, cast

import anyio

from nextcloud_mcp_server.nextcloud.credential import NextcloudCredential

#: Limits per user and topic, and in total; larger content is fetched again by each call.
MAX_PERSON_BYTES: Final = 24 * 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_PEOPLE: Final = 50
IDLE_SECONDS: Final = 900.0

Topic = Literal["notes", "VEVENT", "VTODO"]


class Kept(Protocol):
    """Content that can be cached."""

    @property
    def size(self) -> int:
        """Return its approximate size in memory, in bytes."""
        ...


_K = TypeVar("_K", bound=Kept)


@dataclass(slots=True)
class _Person:
    kept: dict[Topic, Kept]
    credential: NextcloudCredential
    used_at: float

    @property
    def size(self) -> int:
        return sum(each.size for each in self.kept.values())


@dataclass
class ContentCache:
    """The cached content of all users; one per server process."""

    monotonic: Callable[[], float] = anyio.current_time
    max_person_bytes: int = MAX_PERSON_BYTES
    max_bytes: int = MAX_BYTES
    max_people: int = MAX_PEOPLE
    idle_seconds: float = IDLE_SECONDS
    _people: OrderedDict[str, _Person] = field(
        default_factory=OrderedDict[str, _Person], init=False, repr=False
    )

    def drop(self, uid: str) -> None:
        """Drop the cached content of a user."""
        self._people.pop(uid, None)

    def drop_credential(self, credential: NextcloudCredential) -> None:
        """Drop the content that was last used with a credential that ends now."""
        for uid in [uid for uid, person in self._people.items() if person.credential == credential]:
            self.drop(uid)

    @property
    def size(self) -> int:
        """Count the cached bytes."""
        return sum(person.size for person in self._people.values())

    @property
    def people(self) -> list[str]:
        """List the uids with cached content, the longest unused first."""
        return list(self._people)

    def take(self, uid: str, credential: NextcloudCredential, topic: Topic) -> Kept | None:
        """Return the cached content of a user; a request with this credential must confirm it before use."""
        self._sweep()
        person = self._people.get(uid)
        if person is None or topic not in person.kept:
            return None
        self._touch(person, credential, uid)
        return person.kept[topic]

    def keep(self, uid: str, credential: NextcloudCredential, topic: Topic, kept: Kept | None) -> None:
        """Replace the cached content, if there is room; None removes it."""
        person = self._people.setdefault(uid, _Person({}, credential, 0.0))
        self._touch(person, credential, uid)
        person.kept.pop(topic, None)
        if kept is not None and kept.size <= self.max_person_bytes:
            person.kept[topic] = kept
        if not person.kept:
            self.drop(uid)
        self._sweep()

    def _touch(self, person: _Person, credential: NextcloudCredential, uid: str) -> None:
        person.credential, person.used_at = credential, self.monotonic()
        self._people.move_to_end(uid)

    def _sweep(self) -> None:
        oldest = self.monotonic() - self.idle_seconds
        for uid in [uid for uid, person in self._people.items() if person.used_at < oldest]:
            self.drop(uid)
        while len(self._people) > self.max_people or self.size > self.max_bytes:
            self._people.popitem(last=False)


class CachedContent(Generic[_K]):
    """The cached content of one user and one topic, opened with one credential; always of the same type."""

    def __init__(
        self, content_cache: ContentCache, uid: str, credential: NextcloudCredential, topic: Topic
    ) -> None:
        self._content_cache = content_cache
        self._uid = uid
        self._credential = credential
        self._topic: Topic = topic

    def take(self) -> _K | None:
        """Return the cached content; a request must confirm it before use."""
        return cast("_K | None", self._content_cache.take(self._uid, self._credential, self._topic))

    def keep(self, kept: _K | None) -> None:
        """Replace the cached content; None removes it."""
        self._content_cache.keep(self._uid, self._credential, self._topic, kept)
