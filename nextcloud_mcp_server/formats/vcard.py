"""Reads and writes a vCard line by line (RFC 6350 §3.2, RFC 2426 §5).

Single lines are changed; the card is never rewritten as a whole. What is not to change (a photo, `X-` properties,
groups such as `item1.`, parameters, the folding of lines) is kept byte for byte.
"""

import binascii
import quopri
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from nextcloud_mcp_server.formats.content_line import (
    Pieces,
    escape,
    fold,
    newline_of,
    split,
    unescape,
    unfold,
)

_PHYSICAL = re.compile(r"[^\n]*\n|[^\n]+\Z")
_HEAD = re.compile(r'\s*(?:([\w-]+)\.)?([\w-]+)((?:;(?:"[^"\r\n]*"|[^":;])*)*):', re.ASCII)
_PARAMETER = re.compile(r';((?:"[^"]*"|[^";])*)')
_PARTS = re.compile(r'"([^"]*)"|([^",]+)')
#: A soft line break in quoted-printable (RFC 2045 §6.7).
_SOFT_BREAK = re.compile(r"=[ \t]*\r?\n")
_LABEL: Final = "X-ABLABEL"
_PRINTABLE: Final = "QUOTED-PRINTABLE"
#: Encodings of a value (vCard 2.1 §2.1.4, RFC 2426 §5). vCard 2.1 may omit the parameter name.
_ENCODINGS: Final = frozenset({_PRINTABLE, "BASE64", "B", "7BIT", "8BIT"})
_BASE64: Final = frozenset({"BASE64", "B"})
#: Parameters that describe only the encoding of the value, and no longer apply to a new one.
_WRITING: Final = frozenset({"ENCODING", "CHARSET"})
#: A head without any of these need not be parsed: a card may have thousands of lines.
_WRITTEN = re.compile(r"QUOTED-PRINTABLE|BASE64|ENCODING|CHARSET|[78]BIT|TYPE=\"?B\b|;B[;:]", re.IGNORECASE)
#: Properties with parts separated by semicolons.
_STRUCTURED: Final = frozenset({"N", "ADR", "ORG"})
#: A real card has a few hundred lines; one of a group has one for each member.
_MOST_LINES: Final = 10_000
#: Memory for a parsed card and its fields, at most: for the text as a multiple, and for each line and part (measured).
_TEXT_BYTES: Final = 6
_LINE_BYTES: Final = 1_100
_PART_BYTES: Final = 200
_CARD_BYTES: Final = 4_000


class TooLong(Exception):
    """A card has so many lines or parts that it is not parsed."""


def memory(pieces: Pieces) -> int:
    """Return how many bytes a parsed card takes with its fields, at most."""
    return pieces.memory(text=_TEXT_BYTES, line=_LINE_BYTES, part=_PART_BYTES, whole=_CARD_BYTES)


@dataclass(frozen=True, slots=True)
class Line:
    """One content line: `raw` includes folds and line end; the other fields are unfolded.

    `head` is everything before the value, with the colon; `value` is still escaped. A malformed line has no name.
    """

    raw: str
    head: str = ""
    group: str = ""
    name: str = ""
    value: str = ""

    @classmethod
    def read(cls, raw: str) -> "Line":
        """Parse a line."""
        plain = unfold(raw)
        found = _HEAD.match(plain)
        if found is None:
            return cls(raw)
        if _PRINTABLE in found[0].upper():
            # Such a line is continued after a `=`; white space at the start of the next line belongs to the value.
            plain = unfold(_SOFT_BREAK.sub("", raw))
        return cls(raw, found[0], found[1] or "", found[2].upper(), plain[found.end() :])

    @property
    def parameters(self) -> list[tuple[str, list[str]]]:
        """List the parameters; in vCard 2.1 one without a name is a type or an encoding."""
        found: list[tuple[str, list[str]]] = []
        for each in _PARAMETER.finditer(self.head.rstrip(":")):
            name, equals, values = each[1].partition("=")
            parts = [quoted or plain for quoted, plain in _PARTS.findall(values if equals else name)]
            key = name.strip().upper()
            if not equals:
                key = "ENCODING" if key in _ENCODINGS else "TYPE"
            found.append((key, parts))
        return found

    def parameter(self, name: str) -> list[str]:
        """List the values of a parameter."""
        return [value for key, values in self.parameters if key == name for value in values]

    @property
    def types(self) -> list[str]:
        """List the types in lower case, without encodings that some programs write among them."""
        found = [part.strip() for each in self.parameter("TYPE") for part in each.split(",")]
        return [one.lower() for one in found if one and one.upper() not in _ENCODINGS]

    @property
    def plain(self) -> str:
        """The value, decoded and unescaped."""
        return self._text(self.value)

    @property
    def components(self) -> list[str]:
        """The parts between semicolons, decoded."""
        return self._parts(";")

    @property
    def listed(self) -> list[str]:
        """The parts between commas, decoded."""
        return self._parts(",")

    @property
    def plain_head(self) -> str:
        """The head for an unencoded value: without encoding and character set."""
        if _WRITTEN.search(self.head) is None:
            return self.head
        parameters = [each[1] for each in _PARAMETER.finditer(self.head.rstrip(":"))]
        kept = [each for each in parameters if not _is_about_writing(each)]
        if len(kept) == len(parameters):
            return self.head
        group = f"{self.group}." if self.group else ""
        return f"{group}{';'.join([self.name, *kept])}:"

    @property
    def plain_value(self) -> str:
        """The value in the form for `plain_head`."""
        if self._encoding is None:
            return self.value
        return ";".join(map(escape, self.components)) if self.name in _STRUCTURED else escape(self.plain)

    @property
    def _encoding(self) -> str | None:
        if _WRITTEN.search(self.head) is None:
            return None
        names = [each.upper() for each in self.parameter("ENCODING") + self.parameter("TYPE")]
        return next((each for each in names if each in (_PRINTABLE, *_BASE64)), None)

    def _parts(self, separator: str) -> list[str]:
        if self._encoding in _BASE64:
            return [unescape(part) for part in split(self.plain, separator)]
        # Split before decoding: an encoded separator does not separate.
        return [self._text(part) for part in split(self.value, separator)]

    def _text(self, value: str) -> str:
        if self._encoding == _PRINTABLE:
            # vCard 2.1 has no other escapes.
            return re.sub(r"\\([;,])", r"\1", self._in_charset(quopri.decodestring(value.encode())))
        if self._encoding in _BASE64:
            try:
                return self._in_charset(b64decode("".join(value.split()), validate=True))
            except (binascii.Error, ValueError):
                return value
        return unescape(value)

    def _in_charset(self, data: bytes) -> str:
        """Decode bytes in the given character set, or in those that programs used without declaring one."""
        for charset in (*self.parameter("CHARSET"), "utf-8"):
            try:
                return data.decode(charset)
            except (LookupError, UnicodeDecodeError):
                continue
        return data.decode("windows-1252", errors="replace")


def _is_about_writing(parameter: str) -> bool:
    """Tell whether a parameter, as written, describes the encoding of the value."""
    name, equals, value = parameter.partition("=")
    if not equals or name.strip().upper() == "TYPE":
        return (value if equals else name).strip().upper() in _ENCODINGS
    return name.strip().upper() in _WRITING


@dataclass(slots=True, eq=False)
class _Place:
    """The place of a line in the card, between two others."""

    line: Line
    before: "_Place | None" = None
    after: "_Place | None" = None


_Places = dict[_Place, None]


class VCard:
    """The lines of a card, for reading and changing.

    A card may have thousands of lines. So a change finds its place without looking at the others: by the line itself,
    by its name and by its group.
    """

    def __init__(self, lines: Iterable[Line], newline: str) -> None:
        self._newline = newline
        self._first: _Place | None = None
        self._last: _Place | None = None
        self._place_of: dict[int, _Place] = {}
        self._by_name: dict[str, _Places] = {}
        self._by_group: dict[str, _Places] = {}
        self._labels: dict[str, _Places] = {}
        self._number = 1
        for line in lines:
            self._insert(line, self._last)

    def __del__(self) -> None:
        """Free the places now: they refer to each other, so they would wait for the garbage collector."""
        for place in self._place_of.values():
            place.before = None

    @classmethod
    def read(cls, text: str) -> "VCard":
        """Parse a card; accepts malformed ones.

        Raises:
          TooLong: It has too many lines or parts.
        """
        if wrong := Pieces.of(text).too_many(_MOST_LINES):
            raise TooLong(wrong)
        newline = newline_of(text)
        if text and not text.endswith("\n"):
            # White space at the end of a property's text may be missing, and with it the end of the last line.
            text += newline
        return cls(map(Line.read, _logical(text)), newline)

    @property
    def text(self) -> str:
        """The card as text, to store."""
        return "".join(line.raw for line in self._lines())

    @property
    def whole(self) -> bool:
        """Tell whether this is exactly one complete card."""
        marks = [(line.name, line.value.strip().upper()) for line in self._lines() if line.raw.strip()]
        ends = [mark for mark in marks if mark[0] in ("BEGIN", "END", "")]
        return bool(marks) and [marks[0], marks[-1]] == ends == [("BEGIN", "VCARD"), ("END", "VCARD")]

    def __len__(self) -> int:
        """Count the lines."""
        return len(self._place_of)

    @property
    def several(self) -> bool:
        """Tell whether the text contains more than one card."""
        return len(self._by_name.get("BEGIN", ())) > 1

    @property
    def version(self) -> str:
        """The value of VERSION, usually `3.0` or `4.0`."""
        return next((line.value.strip() for line in self.every("VERSION")), "")

    @property
    def names(self) -> list[str]:
        """The names of all properties, each once."""
        return list(dict.fromkeys(line.name for line in self._lines() if line.name))

    def every(self, name: str) -> Iterator[Line]:
        """Yield the lines of one property."""
        return (place.line for place in self._by_name.get(name, ()))

    def label(self, line: Line) -> Line | None:
        """Find the line that labels this one (`item1.X-ABLabel` labels `item1.TEL`)."""
        found = next(iter(self._labels.get(line.group.lower(), ())), None) if line.group else None
        return None if found is None else found.line

    def replace(self, line: Line, value: str, *, head: str | None = None) -> Line:
        """Replace the value of a line, written as it is, and optionally its head; return the new line."""
        new = self._written(line.plain_head if head is None else head, value)
        place = self._place_of.pop(id(line))
        place.line = new
        self._place_of[id(new)] = place
        return new

    def remove(self, line: Line) -> None:
        """Remove a line, and the label that belongs to it alone."""
        label = self.label(line)
        self._take_out(line)
        if label is not None and label is not line and len(self._by_group[label.group.lower()]) == 1:
            self._take_out(label)

    def add(self, head: str, value: str) -> None:
        """Add a line after the last one with its name, or at the end of the card."""
        line = self._written(head, value)
        same, ends = self._by_name.get(line.name), self._by_name.get("END")
        if same:
            self._insert(line, next(reversed(same)))
        else:
            self._insert(line, next(iter(ends)).before if ends else self._last)

    def add_labelled(self, head: str, value: str, label: str) -> None:
        """Add a line with a label, in an unused group."""
        while self._by_group.get(f"item{self._number}"):
            self._number += 1
        group = f"item{self._number}"
        self.add(f"{group}.{head}", value)
        self.add(f"{group}.X-ABLabel:", escape(label))

    def _written(self, head: str, value: str) -> Line:
        return Line.read(fold(head + value, self._newline))

    def _lines(self) -> Iterator[Line]:
        place = self._first
        while place is not None:
            yield place.line
            place = place.after

    def _insert(self, line: Line, before: _Place | None) -> None:
        """Insert a line after a place, or as the first."""
        after = self._first if before is None else before.after
        place = _Place(line, before, after)
        if before is None:
            self._first = place
        else:
            before.after = place
        if after is None:
            self._last = place
        else:
            after.before = place
        self._place_of[id(line)] = place
        for places, key in self._lists_of(line):
            places.setdefault(key, {})[place] = None

    def _take_out(self, line: Line) -> None:
        place = self._place_of.pop(id(line))
        for places, key in self._lists_of(line):
            del places[key][place]
        if place.before is None:
            self._first = place.after
        else:
            place.before.after = place.after
        if place.after is None:
            self._last = place.before
        else:
            place.after.before = place.before

    def _lists_of(self, line: Line) -> Iterator[tuple[dict[str, _Places], str]]:
        yield self._by_name, line.name
        if line.group:
            yield self._by_group, line.group.lower()
            if line.name == _LABEL:
                yield self._labels, line.group.lower()


def _logical(text: str) -> Iterable[str]:
    """Yield each logical line with its folds."""
    line: list[str] = []
    printable = False
    for found in _PHYSICAL.finditer(text):
        physical = found[0]
        goes_on = printable and line[-1].rstrip().endswith("=")
        if line and not goes_on and not physical.startswith((" ", "\t")):
            yield "".join(line)
            line = []
        if not line:
            # In vCard 2.1 such a line is continued after a `=` at its end.
            printable = "QUOTED-PRINTABLE" in physical.partition(":")[0].upper()
        line.append(physical)
    if line:
        yield "".join(line)
