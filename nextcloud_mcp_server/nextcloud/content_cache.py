"""What was read of users' accounts, kept in memory between two calls: bounded, and never handed out unasked.

What is kept of a user is used only beside an answer that Nextcloud has just given to that user's own
credential, and only where that answer says that it is still so. It is bound to the account's id, and dropped when
the access ends, when it was not used for a while, and when there is too much.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, Protocol, TypeVar, cast

import anyio

from nextcloud_mcp_server.nextcloud.credential import NextcloudCredential

#: Of one user and of one topic, and of all; what is larger is fetched anew by each call.
MAX_PERSON_BYTES: Final = 24 * 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_PEOPLE: Final = 50
IDLE_SECONDS: Final = 900.0

Topic = Literal["notes", "VEVENT", "VTODO"]


class Kept(Protocol):
    """Something that is kept."""

    @property
    def size(self) -> int:
        """Count about how many bytes of memory it takes."""
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
    """Every user's shelves; one per server process."""

    monotonic: Callable[[], float] = anyio.current_time
    max_person_bytes: int = MAX_PERSON_BYTES
    max_bytes: int = MAX_BYTES
    max_people: int = MAX_PEOPLE
    idle_seconds: float = IDLE_SECONDS
    _people: OrderedDict[str, _Person] = field(
        default_factory=OrderedDict[str, _Person], init=False, repr=False
    )

    def drop(self, uid: str) -> None:
        """Forget what is kept of a user."""
        self._people.pop(uid, None)

    def drop_credential(self, credential: NextcloudCredential) -> None:
        """Forget what was last used with a credential that ends now."""
        for uid in [uid for uid, person in self._people.items() if person.credential == credential]:
            self.drop(uid)

    @property
    def size(self) -> int:
        """Count the bytes that are kept."""
        return sum(person.size for person in self._people.values())

    @property
    def people(self) -> list[str]:
        """Name of whom something is kept, the longest unused first."""
        return list(self._people)

    def take(self, uid: str, credential: NextcloudCredential, topic: Topic) -> Kept | None:
        """Give what is kept of a user, for a request with this credential to confirm."""
        self._sweep()
        person = self._people.get(uid)
        if person is None or topic not in person.kept:
            return None
        self._touch(person, credential, uid)
        return person.kept[topic]

    def keep(self, uid: str, credential: NextcloudCredential, topic: Topic, kept: Kept | None) -> None:
        """Keep this instead of what was there, if there is room; None forgets."""
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
    """What is kept of one user about one topic, opened with one of their credentials; always of the same type."""

    def __init__(
        self, shelves: ContentCache, uid: str, credential: NextcloudCredential, topic: Topic
    ) -> None:
        self._shelves = shelves
        self._uid = uid
        self._credential = credential
        self._topic: Topic = topic

    def take(self) -> _K | None:
        """Give what is kept, for a request to confirm."""
        return cast("_K | None", self._shelves.take(self._uid, self._credential, self._topic))

    def keep(self, kept: _K | None) -> None:
        """Keep this instead; None forgets."""
        self._shelves.keep(self._uid, self._credential, self._topic, kept)
