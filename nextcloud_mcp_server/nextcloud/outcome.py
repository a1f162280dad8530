"""Compares what is stored after a write with what was sent.

Some apps answer 200 and store something else, or nothing: Tables drops values it cannot parse, Deck ignores unknown
values. Every write whose response or subsequent read shows what is stored is checked here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.sanitize import escaped_start
from nextcloud_mcp_server.nextcloud.spelling import composed

#: The earlier value of a newly created object.
NEW: Final = object()
_LONGEST: Final = 60
#: Texts of more characters are compared as they are.
_LONG: Final = 100_000
_LISTED: Final = 10


@dataclass(frozen=True, slots=True)
class Part:
    """One field: as sent or expected to stay, as stored now, and as it was before."""

    name: str
    sent: object
    stored: object
    before: object = NEW

    @property
    def as_sent(self) -> bool:
        """Tell whether it is stored as sent."""
        return _is_same(self.sent, self.stored)

    @property
    def is_unchanged(self) -> bool:
        """Tell whether it is as before."""
        return self.before is not NEW and _is_same(self.before, self.stored)

    def __str__(self) -> str:
        """Return the stored value and the one that was sent, as text."""
        return f"'{self.name}' is {_shown(self.stored)} instead of {_shown(self.sent)}"


def compare(app: str, parts: Iterable[Part]) -> str | None:
    """Return a sentence about the fields that are not stored as sent; None where all are.

    Raises:
      ServerFault: No field changed, though one should have.
    """
    every = list(parts)
    wrong = [str(part) for part in every if not part.as_sent]
    if not wrong:
        return None
    listed = "; ".join(wrong[:_LISTED]) + (f"; and {len(wrong) - _LISTED} more" if wrong[_LISTED:] else "")
    if all(part.is_unchanged for part in every):
        raise errors.ServerFault(
            f"{app} answered as if it were done, but changed nothing: {listed}. Do not repeat it as it is; tell the "
            "person that it has to be done in Nextcloud."
        )
    return f"{app} did not store all of it as it was sent: {listed}."


def _is_same(left: object, right: object) -> bool:
    # Long texts are hardly ever spelled differently, and normalising them takes seconds.
    return left == right or (not _is_long(left) and not _is_long(right) and _plain(left) == _plain(right))


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > _LONG


def _plain(value: object) -> object:
    """Normalise a value for comparison: empty values, order of lists, spelling of texts."""
    if isinstance(value, list):
        return sorted(composed(str(one)) for one in cast("list[object]", value)) or None
    return None if value == "" else composed(value) if isinstance(value, str) else value


def _shown(value: object) -> str:
    if value is None or value in ("", []):
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(_shown(one) for one in cast("list[object]", value)[:_LISTED])
    text = escaped_start(str(value), _LONGEST + 1)
    shown = f"{text[: _LONGEST - 1]}…" if len(text) > _LONGEST else text
    return f"“{shown}”" if isinstance(value, str) else shown
