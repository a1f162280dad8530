"""Reads and writes a calendar object line by line (RFC 5545 §3.1).

Single lines are changed; the object is never rewritten as a whole. What is not to change (alarms, attendees, `X-`
properties, parameters, the folding of lines) is kept byte for byte.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Union

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import content_line
from nextcloud_mcp_server.formats.content_line import Pieces, fold, newline_of, unescape, unfold

#: Enough of an object to see its line ends.
_FIRST_LINE: Final = 75
#: A line with its folds, and its name, unless that is folded; a full calendar has ten thousand of them.
_LOGICAL = re.compile(r"(?:([A-Za-z0-9-]+)[;:])?[^\n]*+(?:\n[ \t][^\n]*+)*+(?:\n|\Z)")
_NAME = re.compile(r"\s*([A-Za-z0-9-]+)[;:]")
_HEAD = re.compile(r'(?:"[^"]*"|[^":])*:')
_PARAMETER = re.compile(r';([A-Za-z0-9-]+)=((?:"[^"]*"|[^";])*)')
#: Deeper than any real object: an alarm in an event in a calendar.
_DEEPEST: Final = 8
#: A real object has at most two thousand lines: one for each guest or changed occurrence.
_MOST_LINES: Final = 20_000
#: Memory for a text with its parsed lines, at most: a multiple of the text, and for each line and part (measured).
_TEXT_BYTES: Final = 4
_LINE_BYTES: Final = 450
_PART_BYTES: Final = 200
_OBJECT_BYTES: Final = 2_000
#: Characters that no text may contain (RFC 5545 §3.1); tab and line feed are allowed.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Unreadable(Exception):
    """A calendar object is malformed or contains an impossible value."""


class Line:
    """One content line: `raw` includes folds and line end; all but the name is parsed on demand."""

    __slots__ = ("_parts", "name", "raw")

    def __init__(self, raw: str, name: str = "") -> None:
        self.raw = raw
        if not name and (found := _NAME.match(raw)):
            name = found[1]
        self.name = name.upper()
        self._parts: tuple[str, str] | None = None

    @classmethod
    def of(cls, head: str, value: str, newline: str = "\r\n") -> "Line":
        """Build a line: `head` is everything before the colon, `value` is already escaped."""
        return cls(fold(f"{head}:{value}", newline))

    def _split(self) -> tuple[str, str]:
        if self._parts is None:
            raw = self.raw
            plain = unfold(raw)
            head, _, value = plain.partition(":")
            if '"' in head and (found := _HEAD.match(plain)):
                head, value = found[0][:-1], plain[found.end() :]
            elif '"' in head:
                head, value = plain, ""
            self._parts = head, value
        return self._parts

    @property
    def head(self) -> str:
        """The name with its parameters, as written."""
        return self._split()[0].strip()

    @property
    def value(self) -> str:
        """The value, still escaped."""
        return self._split()[1]

    @property
    def parameters(self) -> str:
        """The parameters as written, from the first semicolon on."""
        return self.head[len(self.name) :]

    @property
    def text(self) -> str:
        """The value, unescaped."""
        return unescape(self.value)

    def parameter(self, name: str) -> str:
        """Return the value of a parameter, "" without one."""
        if name not in self.head.upper():
            return ""
        return next(
            (each[2].strip('"') for each in _PARAMETER.finditer(self.head) if each[1].upper() == name), ""
        )

    def with_parameter(self, name: str, value: str | None) -> "Line":
        """Return the line with another value of one parameter; None removes it."""
        kept = _PARAMETER.sub(lambda one: "" if one[1].upper() == name else one[0], self.head)
        added = "" if value is None else f";{name}={value}"
        return Line.of(f"{kept}{added}", self.value, newline_of(self.raw))


Item = Union[Line, "Component"]


class Component:
    """A component: its lines and components in order, including `BEGIN` and `END`."""

    __slots__ = ("items", "name")

    def __init__(self, name: str, items: list[Item]) -> None:
        self.name = name
        self.items = items

    @classmethod
    def empty(cls, name: str) -> "Component":
        """Create an empty component."""
        return cls(name, [Line.of("BEGIN", name), Line.of("END", name)])

    def copy(self) -> "Component":
        """Return a copy."""
        return Component(self.name, [one if isinstance(one, Line) else one.copy() for one in self.items])

    def every(self, name: str) -> Iterator[Line]:
        """Yield the lines of one property."""
        return (one for one in self.items if isinstance(one, Line) and one.name == name)

    def first(self, name: str) -> Line | None:
        """Return the first line of a property, or None."""
        return next(self.every(name), None)

    def text(self, name: str) -> str:
        """Return the text of a property, "" without one."""
        line = self.first(name)
        return "" if line is None else line.text

    def components(self, *names: str) -> Iterator["Component"]:
        """Yield the components with these names."""
        return (one for one in self.items if isinstance(one, Component) and one.name in names)

    @property
    def written(self) -> str:
        """The component as text, to store."""
        return "".join(one.raw if isinstance(one, Line) else one.written for one in self.items)

    @property
    def newline(self) -> str:
        """The line end in use."""
        return newline_of(self.written[:_FIRST_LINE])

    def set(self, head: str, value: str) -> None:
        """Set a property to one value: in place of its first line, or after the other properties."""
        line = Line.of(head, value, self.newline)
        at = [
            index for index, one in enumerate(self.items) if isinstance(one, Line) and one.name == line.name
        ]
        if at:
            self.items[at[0]] = line
            for index in reversed(at[1:]):
                del self.items[index]
        else:
            self.add(line)

    def set_text(self, name: str, text: str | None) -> None:
        """Set a property to a text and keep its parameters; None removes it."""
        if not text:
            self.remove(name)
            return
        line = self.first(name)
        self.set(name if line is None else line.head, escape(text))

    def add(self, item: Item) -> None:
        """Insert a line after the other lines; append a component."""
        behind = (
            index
            for index, one in enumerate(self.items)
            if (isinstance(one, Line) and one.name == "END")
            or (isinstance(item, Line) and isinstance(one, Component))
        )
        self.items.insert(next(behind), item)

    def remove(self, name: str) -> None:
        """Remove all lines of a property."""
        self.items = [one for one in self.items if not (isinstance(one, Line) and one.name == name)]

    def change(self, name: str, change: Callable[[Line], Line | None]) -> None:
        """Change each line of a property; None removes it. One pass: an invitation may have thousands of lines."""
        changed = (change(one) if isinstance(one, Line) and one.name == name else one for one in self.items)
        self.items = [one for one in changed if one is not None]

    def remove_components(self, components: Iterable["Component"]) -> None:
        """Remove these components."""
        gone = set(map(id, components))
        self.items = [one for one in self.items if id(one) not in gone]

    def replace(self, old: Item, new: Item | None) -> None:
        """Replace a line or component; None removes it."""
        index = next(index for index, one in enumerate(self.items) if one is old)
        self.items[index : index + 1] = [] if new is None else [new]


def memory(pieces: Pieces) -> int:
    """Return how many bytes a text takes together with its parsed lines, at most.

    Of a text that has too many, nothing is parsed.
    """
    if pieces.too_many(_MOST_LINES):
        return pieces.size + _OBJECT_BYTES
    return pieces.memory(text=_TEXT_BYTES, line=_LINE_BYTES, part=_PART_BYTES, whole=_OBJECT_BYTES)


def read(text: str) -> Component:
    """Parse a calendar object.

    Raises:
      Unreadable: It is not exactly one `VCALENDAR`, or has too many lines or parts.
    """
    if wrong := Pieces.of(text).too_many(_MOST_LINES):
        raise Unreadable(wrong)
    # White space at the end of a property's text may be missing, and with it the end of the last line.
    if not text.endswith("\n"):
        text += newline_of(text)
    root = Component("", [])
    open_ = [root]
    # One by one: a search for all would let no other thread run until it ends.
    for found in _LOGICAL.finditer(text):
        raw = found[0]
        line = Line(raw, found[1] or "")
        if line.name == "BEGIN":
            below = Component(line.value.strip().upper(), [line])
            open_[-1].items.append(below)
            open_.append(below)
            if len(open_) > _DEEPEST:
                raise Unreadable("it goes too deep")
        elif line.name:
            open_[-1].items.append(line)
            if line.name == "END" and open_.pop().name != line.value.strip().upper():
                raise Unreadable("an end is not that of what began last")
        elif raw.strip():
            raise Unreadable("a line is no content line")
    match root.items:
        case [Component(name="VCALENDAR") as whole] if open_ == [root]:
            return whole
        case _:
            raise Unreadable("it is not one calendar from its beginning to its end")


def uid_of(text: str) -> str:
    """Return the UID of a calendar object, "" if it cannot be read."""
    try:
        found = (one.text("UID") for one in read(text).components("VEVENT", "VTODO", "VJOURNAL"))
        return next(found, "")
    except Unreadable:
        return ""


def escape(text: str) -> str:
    """Escape a text for use as a value.

    Raises:
      InvalidInput: It contains control characters, which RFC 5545 forbids.
    """
    if _CONTROLS.search(text):
        raise errors.InvalidInput("A text for a calendar cannot hold control characters: send it without.")
    return content_line.escape(text)


def texts(line: Line) -> list[str]:
    """Parse a list of texts, such as the categories."""
    return [text for part in content_line.split(line.value, ",") if (text := unescape(part).strip())]
