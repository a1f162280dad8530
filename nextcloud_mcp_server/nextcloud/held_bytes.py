"""The limit on the memory that a user's calls hold for many objects of Nextcloud: notes, events, contacts, rows.

One response has a limit of its own, but a search reads many, and other users share calendars, address books and tables.
"""

from types import TracebackType
from typing import Final, Self
from weakref import WeakValueDictionary

#: Bytes of memory, with what is made of the texts: thousands of notes of a page each, or of events.
MOST_BYTES: Final = 67_108_864


class _UserBytes:
    """What all calls of a user hold."""

    def __init__(self) -> None:
        self.taken = 0


_USERS: Final = WeakValueDictionary[str, _UserBytes]()


class HeldBytes:
    """Counts what one call holds, until the block ends; all calls of a user `uid` together stay within the limit."""

    def __init__(self, uid: str) -> None:
        self._user = _USERS.setdefault(uid, _UserBytes())
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._user.taken -= self._taken
        self._taken = 0

    def take(self, size: int) -> bool:
        """Count an object; False where it does not fit, so that it must be left out.

        A smaller one may still fit after it: one long text hides no others.
        """
        if size > MOST_BYTES - self._user.taken:
            return False
        self._user.taken += size
        self._taken += size
        return True
