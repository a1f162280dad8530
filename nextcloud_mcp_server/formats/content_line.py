"""Content lines, of which iCalendar and vCard consist: folding, escaping, line ends (RFC 5545 §3.1, RFC 6350 §3.2)."""

import re
import sys
from typing import Final, NamedTuple

#: The maximum length of a line before it is folded, in bytes.
_FOLD: Final = 75
#: The first bits of a byte that continues a character (RFC 3629 §3).
_CONTINUATION: Final = 0b1000_0000
_FOLDS = re.compile(r"\r?\n[ \t]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
#: A picture of 10 MB, folded as it is written, has 140,000 folds.
_MOST_FOLDS: Final = 200_000
#: More than a note of two megabytes has commas.
_MOST_PARTS: Final = 50_000
#: Memory while a fold is taken out.
_FOLD_BYTES: Final = 100
#: To parse a line, a part or a fold takes as long as to search so many characters.
_LINE: Final = 100
_PART: Final = 20
_FOLD_TIME: Final = 5


class Pieces(NamedTuple):
    """Counts what a text is parsed into: logical lines, folds in them, and what separators may separate.

    Each takes time and memory of its own, many times that of the character that makes it. They are counted before
    the text is parsed.
    """

    size: int
    lines: int
    folds: int
    parts: int

    @classmethod
    def of(cls, text: str) -> "Pieces":
        """Count the pieces of a text; an escaped separator counts as well."""
        folds = text.count("\n ") + text.count("\n\t")
        parts = text.count(",") + text.count(";") + text.count('"') // 2
        return cls(sys.getsizeof(text), text.count("\n") + 1 - folds, folds, parts)

    def memory(self, *, text: int, line: int, part: int, whole: int) -> int:
        """Sum up bytes: `text` for each of the text, `line` and `part` for each of these, and `whole` once."""
        return self.size * text + self.lines * line + self.parts * part + self.folds * _FOLD_BYTES + whole

    @property
    def work(self) -> int:
        """The number of characters of plain text that take as much time."""
        return self.size + self.parsing

    @property
    def parsing(self) -> int:
        """The part of the work that the pieces take."""
        return self.lines * _LINE + self.parts * _PART + self.folds * _FOLD_TIME

    def too_many(self, most_lines: int) -> str:
        """Say what there is too much of to parse the text; empty if nothing."""
        limits = (
            (self.lines, most_lines, "lines"),
            (self.folds, _MOST_FOLDS, "folds in its lines"),
            (self.parts, _MOST_PARTS, "commas, semicolons and quotation marks"),
        )
        return next((f"it has more than {most:,} {what}" for count, most, what in limits if count > most), "")


def unfold(raw: str) -> str:
    """Return a line without its folds and its end."""
    # Most lines have no fold, and a calendar has ten thousand of them.
    return (_FOLDS.sub("", raw) if "\n" in raw[:-1] else raw).rstrip("\r\n")


def escape(text: str) -> str:
    """Escape a text for use as a value."""
    text = text.replace("\\", "\\\\").replace(",", "\\,").replace(";", "\\;")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", r"\n")


def unescape(value: str) -> str:
    """Return the text of an escaped value."""
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], value)


def split(value: str, separator: str) -> list[str]:
    """Split a value at unescaped separators."""
    return re.findall(rf"(?:^|{separator})((?:\\.|[^{separator}\\]|\\\Z)*)", value, re.DOTALL)


def fold(text: str, newline: str) -> str:
    """Return a line, folded at the maximum length."""
    parts: list[bytes] = []
    data, start, limit = text.encode(), 0, _FOLD
    while len(data) - start > limit:
        end = start + limit
        # A character that would be split moves to the next line.
        while data[end] & 0b1100_0000 == _CONTINUATION:
            end -= 1
        parts.append(data[start:end])
        start, limit = end, _FOLD - 1
    return f"{newline} ".encode().join([*parts, data[start:]]).decode() + newline


def newline_of(text: str) -> str:
    """Return the line end that a text uses."""
    return "\n" if "\n" in text and "\r\n" not in text else "\r\n"
