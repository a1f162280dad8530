"""Content lines, of which iCalendar and vCard consist: folding, escaping, line ends (RFC 5545 §3.1, RFC 6350 §3.2)."""

import re
from typing import Final

#: The maximum length of a line before it is folded, in bytes.
_FOLD: Final = 75
#: The first bits of a byte that continues a character (RFC 3629 §3).
_CONTINUATION: Final = 0b1000_0000
_FOLDS = re.compile(r"\r?\n[ \t]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


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
