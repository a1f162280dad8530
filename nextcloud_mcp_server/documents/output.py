"""Receives the text of a reader, and defines how reading a document can end."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

#: The maximum text extracted from one document, about two thousand pages.
MAX_TEXT_BYTES: Final = 4_194_304

#: How reading a document ended. The server sets `slow` and `memory` where the worker ended without a result.
End = Literal["ok", "long", "slow", "memory", "password", "empty", "unpacks", "broken", "failed"]

#: Control characters mean nothing to a reader, and a NUL would make a text look like a binary file.
_DROPPED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LINE_ENDS: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


class Refused(Exception):
    """A document cannot be read further; `end` gives the reason."""

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.end: End = end


@dataclass(slots=True)
class Output:
    """Receives text up to the limit. Removes repeated blank lines."""

    send: Callable[[bytes], object]
    tell: Callable[[str], object] = print
    room: int = MAX_TEXT_BYTES
    anything: bool = False
    _blank: int = field(default=2, init=False)

    def write(self, text: str) -> None:
        """Write one or more whole lines.

        Raises:
          Refused: The limit is reached.
        """
        kept: list[str] = []
        for line in _LINE_ENDS.sub("\n", text).split("\n"):
            clean = _DROPPED.sub("", line).rstrip()
            self._blank = 0 if clean else self._blank + 1
            if self._blank <= 1:
                kept.append(clean + "\n")
        data = "".join(kept).encode("utf-8", "replace")
        if len(data) > self.room:
            self.send(data[: self.room].decode("utf-8", "ignore").encode())
            self.room = 0
            raise Refused("long")
        self.room -= len(data)
        self.send(data)

    def body(self, text: str) -> None:
        """Write text of the document itself, as opposed to an added mark."""
        if text.strip():
            self.anything = True
            self.write(text)

    def progress(self, done: int, total: int) -> None:
        """Report the progress of reading."""
        self.tell(f"{done} {total}")
