"""What strangers wrote and sent, such as mail and feeds: short visible lines, and texts without what is hidden."""

from datetime import UTC, datetime
from typing import Final

from nextcloud_mcp_server.nextcloud.sanitize import cut

#: A page of a text. It goes out twice, once of it as JSON, and what is said about it may be long, too.
PAGE_BYTES: Final = 20_000

_LONGEST_LINE: Final = 300
_LAST_SECOND: Final = 253_402_300_799

#: Drawn as nothing, so that a person who reads the text does not see what a model would be told by them:
#: control characters, soft hyphens and joiners, direction overrides, and the tags, an alphabet of its own (U+E0000).
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
    """Write a title or a name on one line, of at most so many characters with what is hidden in it shown."""
    plain = " ".join((text or "")[: 4 * most].split())
    return cut(plain, most)


def seen(text: str) -> str:
    """Take out of a text what no one would see."""
    return text.translate(_UNSEEN)


def moment(seconds: int | None) -> datetime | None:
    """Read the time a sender claims; one that is in no calendar is none."""
    return None if not seconds or not 0 < seconds <= _LAST_SECOND else datetime.fromtimestamp(seconds, UTC)
