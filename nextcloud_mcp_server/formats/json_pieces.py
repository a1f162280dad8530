"""Divides a long JSON list into short documents, so that it need not be parsed at once.

A parser written in C lets no other thread run until it has ended, which is 100 ms for 12 MB.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

#: A list, alone or in the envelope of an OCS response.
_BEGINNING: Final = re.compile(
    rb'[ \n\r\t]*+(?:\{[ \n\r\t]*+"ocs"[ \n\r\t]*+:[ \n\r\t]*+\{[ \n\r\t]*+"meta"[ \n\r\t]*+:[ \n\r\t]*+\{[^{}]*+\}'
    rb'[ \n\r\t]*+,[ \n\r\t]*+"data"[ \n\r\t]*+:[ \n\r\t]*+)?+\['
)
_SPACE: Final = re.compile(r"[ \n\r\t]*+")
_END: Final = re.compile(rb"\][ \n\r\t]*+(\}[ \n\r\t]*+\}[ \n\r\t]*+)?+")
_DECODER: Final = json.JSONDecoder()


def pieces(text: bytes, size: int) -> Iterator[bytes]:
    """Yield documents like `text`, each with some of the items of its list, of `size` bytes or one item more.

    Items are neither changed nor checked: who parses the documents does that.

    Raises:
      ValueError: It is not a list, or the list does not end as it should. Documents may have been yielded before.
    """
    found = _BEGINNING.match(text)
    if found is None:
        raise ValueError("It is not a list.")
    head = found[0]
    # One character for each byte, also where a letter has several: only the places of the items are looked for.
    letters = text.decode("latin-1")
    start = at = found.end()
    try:
        while True:
            at = _past_space(letters, _DECODER.raw_decode(letters, _past_space(letters, at))[1])
            if letters[at : at + 1] != ",":
                break
            if at - start >= size:
                yield b"%b%b%b" % (head, text[start:at], _tail(head))
                start = at + 1
            at += 1
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None
    end = _END.fullmatch(text, at)
    if end is None or bool(end[1]) != (b"{" in head):
        raise ValueError("The list does not end as it should.")
    yield head + text[start:]


def _past_space(letters: str, at: int) -> int:
    found = _SPACE.match(letters, at)
    return at if found is None else found.end()


def _tail(head: bytes) -> bytes:
    return b"]}}" if b"{" in head else b"]"
