"""Untrusted text, such as mail and feeds: escapes short lines, removes hidden characters."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from nextcloud_mcp_server.nextcloud.sanitize import cut

#: The size of a page of text. It is sent twice, once of it as JSON, and the facts about it may be long, too.
PAGE_BYTES: Final = 20_000

_LONGEST_LINE: Final = 300
_LAST_SECOND: Final = 253_402_300_799
_PIECE: Final = 65_536

#: Rendered as nothing, so that a user who reads the text does not see what it would tell a model: control
#: characters, soft hyphens and joiners, direction overrides, and the tags, an alphabet of its own (U+E0000).
_UNSEEN: Final = dict.fromkeys(
    [
        *range(9),
        0xB,
        0xC,
        *range(0xE, 0x20),
        0xAD,
        0x34F,
        0x200B,
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
        *range(0xE0000, 0xE0080),
    ]
)


def line(text: str | None, most: int = _LONGEST_LINE) -> str:
    """Return a title or a name on one line, escaped, of at most `most` characters."""
    plain = " ".join((text or "")[: 4 * most].split())
    return cut(plain, most)


def seen(text: str) -> str:
    """Remove the characters that a reader does not see."""
    # In pieces, between which other threads run.
    return "".join(text[start : start + _PIECE].translate(_UNSEEN) for start in range(0, len(text), _PIECE))


def moment(seconds: int | None) -> datetime | None:
    """Convert the time that a sender claims; None for one that no calendar has."""
    return None if not seconds or not 0 < seconds <= _LAST_SECOND else datetime.fromtimestamp(seconds, UTC)


def cleaned(clean: Callable[[str], str | None]) -> BeforeValidator:
    """Return the validator that cleans a text of a response; it reads null as an empty one."""

    def check(value: object) -> object:
        return clean(value or "") if value is None or isinstance(value, str) else value

    return BeforeValidator(check)


#: A member of a response that is a title or a name; it may be missing.
Line = Annotated[str, cleaned(line), Field(default_factory=str)]
