"""Prints the demo as text: numbered steps in colour at a terminal, plain lines elsewhere."""

import json
import shutil
import textwrap
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TextIO

import anyio

_WIDEST = 88
_NARROWEST = 40
_INDENT = "   "
_BAR = "│ "
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.1
_CLEAR_LINE = "\r\x1b[2K"

_BOLD, _DIM, _GREEN, _CYAN = "1", "2", "32", "36"


class Narrator:
    """Writes to one stream; `live` is set for a terminal that supports colours."""

    def __init__(
        self, out: TextIO, *, live: bool, width: int | None = None, now: Callable[[], float] | None = None
    ) -> None:
        self._out = out
        self._live = live
        columns = width or shutil.get_terminal_size().columns
        self._width = max(_NARROWEST, min(columns, _WIDEST)) - 1
        self._now = now or anyio.current_time
        self._steps = 0
        self._waiting = ""
        self.step_title = "Start"

    @property
    def steps(self) -> int:
        """Count the steps so far."""
        return self._steps

    def headline(self, text: str) -> None:
        """Print the title."""
        self._line(self._styled(text, _BOLD))

    def step(self, title: str) -> None:
        """Print the title of the next step."""
        self._steps += 1
        self.step_title = title
        self._line("")
        self._line(self._styled(f"{self._steps:>2}. {title}", f"{_BOLD};{_CYAN}"))

    def say(self, text: str) -> None:
        """Print a paragraph."""
        for line in self._wrapped(text, _INDENT, _INDENT):
            self._line(line)

    def item(self, text: str) -> None:
        """Print an item of a list."""
        for line in self._wrapped(text, f"{_INDENT}• ", f"{_INDENT}  "):
            self._line(line)

    def done(self, text: str) -> None:
        """Print the result of a successful check."""
        first, *more = self._wrapped(text, f"{_INDENT}✓ ", f"{_INDENT}  ")
        self._line(self._styled(first, _GREEN))
        for line in more:
            self._line(self._styled(line, _GREEN))

    def wire(self, message: dict[str, Any]) -> None:
        """Print a message as received, indented."""
        self.quote(json.dumps(message, indent=2, ensure_ascii=False))

    def quote(self, text: str) -> None:
        """Print a quoted text completely; long lines are folded at a terminal."""
        for line in text.splitlines():
            for piece in self._folded(line):
                self._line(f"{_INDENT}{self._styled(_BAR, _DIM)}{piece}".rstrip())

    def link(self, url: str) -> None:
        """Print a URL in one piece, so that it can be clicked and copied."""
        self._line(f"\n{_INDENT}{self._styled(url, _BOLD)}\n")

    @asynccontextmanager
    async def waiting(self, text: str) -> AsyncGenerator[None]:
        """Show that something takes time: a spinner at a terminal, one line elsewhere."""
        if not self._live:
            self.say(f"{text} …")
            yield
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._turn, text)
            try:
                yield
            finally:
                group.cancel_scope.cancel()
                self._waiting = ""
                self._out.write(_CLEAR_LINE)
                self._out.flush()

    async def _turn(self, text: str) -> None:
        since = self._now()
        turns = 0
        while True:
            wheel = self._styled(_FRAMES[turns % len(_FRAMES)], _CYAN)
            seconds = self._styled(f"{self._now() - since:.0f} s", _DIM)
            self._waiting = f"{_CLEAR_LINE}{_INDENT}{wheel} {text} … {seconds}"
            self._out.write(self._waiting)
            self._out.flush()
            turns += 1
            await anyio.sleep(_FRAME_SECONDS)

    def _line(self, text: str) -> None:
        # The spinner is on the last line: remove it, and print it again below.
        self._out.write(f"{_CLEAR_LINE if self._waiting else ''}{text}\n{self._waiting}")
        self._out.flush()

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._live else text

    def _wrapped(self, text: str, first: str, then: str) -> list[str]:
        return textwrap.wrap(
            text,
            self._width,
            initial_indent=first,
            subsequent_indent=then,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def _folded(self, line: str) -> Iterator[str]:
        room = self._width - len(_INDENT) - len(_BAR)
        if not self._live or len(line) <= room:
            yield line
            return
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        yield line[:room]
        rest, room = line[room:], room - len(indent)
        for start in range(0, len(rest), room):
            yield indent + rest[start : start + room]
