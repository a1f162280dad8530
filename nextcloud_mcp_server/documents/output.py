"""What a reader writes its text to, and how it says that a document cannot be read."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

#: The most text that is taken out of one document, about two thousand pages.
MAX_TEXT_BYTES: Final = 4_194_304

#: How reading a document ended. `slow` and `memory` may be the server's word, when the worker had no last one.
End = Literal["ok", "long", "slow", "memory", "password", "empty", "unpacks", "broken", "failed"]

#: Control characters say nothing to a reader, and a NUL would make a text look like a binary file.
_DROPPED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LINE_ENDS: Final = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


class Refused(Exception):
    """A document cannot be read on; `end` says why."""

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.end: End = end


@dataclass(slots=True)
class Output:
    """Takes text until there is enough of it. Blank lines never stand in a row."""

    send: Callable[[bytes], object]
    tell: Callable[[str], object] = print
    room: int = MAX_TEXT_BYTES
    anything: bool = False
    _blank: int = field(default=2, init=False)

    def write(self, text: str) -> None:
        """Send one or more whole lines.

        Raises:
            Refused: That was the last there is room for.
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
        """Send text of the document itself, not a mark of ours."""
        if text.strip():
            self.anything = True
            self.write(text)

    def progress(self, done: int, total: int) -> None:
        """Say how far the reading is."""
        self.tell(f"{done} {total}")
