"""Finds and replaces exact passages of a text, in bounded time and memory.

Text and passage may be megabytes long, and both may be repetitive: `a` two million times, in `a` four million times.
"""

from sys import getsizeof
from typing import Final

from nextcloud_mcp_server.errors import InvalidInput, TooLarge

#: More occurrences than these are not counted: each count is one more search through the text.
_MOST_COUNTED: Final = 10
#: The largest text that a replacement may lead to. Replacing each `a` of 4 MB by 4 MB would take all memory.
_MOST_CHARACTERS: Final = 8_388_608
#: The memory of a text that can be edited: an edit holds it several times. A character takes one to four bytes.
_MOST_MEMORY: Final = 16_777_216


def refuse_long(text: str) -> None:
    """Refuse to edit a text that takes too much memory.

    Raises:
      TooLarge: It takes too much.
    """
    if getsizeof(text) > _MOST_MEMORY:
        raise TooLarge(
            f"It has {len(text):,} characters, too many to be edited here, so nothing was changed: "
            "edit it in Nextcloud."
        )


def times(text: str, passage: str) -> int:
    """Count the occurrences of a passage, overlapping ones too, up to one more than are counted."""
    found, at = 0, text.find(passage)
    while at >= 0 and found <= _MOST_COUNTED:
        found += 1
        at = text.find(passage, at + 1)
    return found


def in_words(count: int) -> str:
    """Return a result of `times` for a sentence."""
    return f"{count} times" if count <= _MOST_COUNTED else f"more than {_MOST_COUNTED} times"


def replace_every(text: str, old: str, new: str) -> tuple[str, int]:
    """Replace each occurrence of a passage, and return also their number.

    Raises:
      InvalidInput: The new text would be too long.
    """
    count = text.count(old)
    if len(text) + count * (len(new) - len(old)) > _MOST_CHARACTERS:
        raise InvalidInput(
            f"With 'new_text' in {count:,} places the text would be longer than {_MOST_CHARACTERS:,} characters, so "
            "nothing was changed. Replace fewer of them, or send a shorter text."
        )
    return text.replace(old, new), count
