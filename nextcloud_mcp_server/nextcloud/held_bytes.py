"""The limit on the memory of one call for many objects of Nextcloud: notes, events, contacts, rows.

One response has a limit of its own, but a search reads many, and other users share calendars, address books and tables.
"""

from typing import Final

#: Bytes of memory for one call, with what is made of the texts: 10,000 notes of a page each, or as many events.
MOST_BYTES: Final = 134_217_728


class HeldBytes:
    """Counts what one call holds."""

    def __init__(self, most: int | None = None) -> None:
        self._left = MOST_BYTES if most is None else most

    def take(self, size: int) -> bool:
        """Count an object; False where it does not fit, so that it must be left out.

        A smaller one may still fit after it: one long text hides no others.
        """
        if size > self._left:
            return False
        self._left -= size
        return True
