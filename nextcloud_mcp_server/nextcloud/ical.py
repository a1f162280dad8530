"""A calendar object as the lines it is written in (RFC 5545 §3.1).

An object is changed line by line and never written anew as a whole: whatever no one asked to change
(alarms, attendees, `X-` properties, parameters, the way lines are folded) stays as it is, byte for byte.
"""

import re
from collections.abc import Iterator
from typing import Final, Union

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import vcard
from nextcloud_mcp_server.nextcloud.vcard import fold, unescape

#: Enough of an object to see how its lines end.
_FIRST_LINE: Final = 75
#: A line with its folds, and its name, where that is not folded itself; a full calendar has ten thousand of them.
_LOGICAL = re.compile(r"((?:([A-Za-z0-9-]+)[;:])?[^\n]*(?:\n[ \t][^\n]*)*\n)")
_NAME = re.compile(r"\s*([A-Za-z0-9-]+)[;:]")
_HEAD = re.compile(r'(?:"[^"]*"|[^":])*:')
_FOLDS = re.compile(r"\r?\n[ \t]")
_PARAMETER = re.compile(r';([A-Za-z0-9-]+)=((?:"[^"]*"|[^";])*)')
#: Deeper than any object goes: an alarm in an event in a calendar.
_DEEPEST: Final = 8
#: What no text may hold (RFC 5545 §3.1); a tab and a line break may.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Unreadable(Exception):
    """A calendar object is not one, or says something that cannot be."""


class Line:
    """One content line: `raw` with its folds and its end, and its name; the rest is read when asked for."""

    __slots__ = ("_parts", "name", "raw")

    def __init__(self, raw: str, name: str = "") -> None:
        self.raw = raw
        if not name and (found := _NAME.match(raw)):
            name = found[1]
        self.name = name.upper()
        self._parts: tuple[str, str] | None = None

    @classmethod
    def of(cls, head: str, value: str, newline: str = "\r\n") -> "Line":
        """Write a line: `head` is all before the colon, `value` is escaped already."""
        return cls(fold(f"{head}:{value}", newline))

    def _split(self) -> tuple[str, str]:
        if self._parts is None:
            raw = self.raw
            plain = (_FOLDS.sub("", raw) if "\n" in raw[:-1] else raw).strip("\r\n")
            head, _, value = plain.partition(":")
            if '"' in head and (found := _HEAD.match(plain)):
                head, value = found[0][:-1], plain[found.end() :]
            elif '"' in head:
                head, value = plain, ""
            self._parts = head, value
        return self._parts

    @property
    def head(self) -> str:
        """The name with its parameters, as they are written."""
        return self._split()[0].strip()

    @property
    def value(self) -> str:
        """The value, still escaped."""
        return self._split()[1]

    @property
    def parameters(self) -> str:
        """The parameters as they are written, from the first semicolon on."""
        return self.head[len(self.name) :]

    @property
    def text(self) -> str:
        """The value as text."""
        return unescape(self.value)

    def parameter(self, name: str) -> str:
        """Give the value of a parameter, empty when there is none."""
        if name not in self.head.upper():
            return ""
        return next(
            (each[2].strip('"') for each in _PARAMETER.finditer(self.head) if each[1].upper() == name), ""
        )

    def with_parameter(self, name: str, value: str | None) -> "Line":
        """Write the line with another value of one parameter, or without it."""
        kept = _PARAMETER.sub(lambda one: "" if one[1].upper() == name else one[0], self.head)
        added = "" if value is None else f";{name}={value}"
        return Line.of(f"{kept}{added}", self.value, newline_of(self.raw))


Item = Union[Line, "Component"]


class Component:
    """A component: lines and other components, in their order, `BEGIN` and `END` among them."""

    __slots__ = ("items", "name")

    def __init__(self, name: str, items: list[Item]) -> None:
        self.name = name
        self.items = items

    @classmethod
    def empty(cls, name: str) -> "Component":
        """Make one with nothing in it."""
        return cls(name, [Line.of("BEGIN", name), Line.of("END", name)])

    def copy(self) -> "Component":
        """Make another one of the same lines."""
        return Component(self.name, [one if isinstance(one, Line) else one.copy() for one in self.items])

    def every(self, name: str) -> Iterator[Line]:
        """Yield the lines of one property."""
        return (one for one in self.items if isinstance(one, Line) and one.name == name)

    def first(self, name: str) -> Line | None:
        """Give the first line of a property."""
        return next(self.every(name), None)

    def text(self, name: str) -> str:
        """Give a property's text, empty when there is none."""
        line = self.first(name)
        return "" if line is None else line.text

    def components(self, *names: str) -> Iterator["Component"]:
        """Yield the components of these names."""
        return (one for one in self.items if isinstance(one, Component) and one.name in names)

    @property
    def written(self) -> str:
        """The component as it is to be stored."""
        return "".join(one.raw if isinstance(one, Line) else one.written for one in self.items)

    @property
    def newline(self) -> str:
        """How its lines end."""
        return newline_of(self.written[:_FIRST_LINE])

    def set(self, head: str, value: str) -> None:
        """Give a property one value: where its first line was, or behind the other properties."""
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
        """Give a property a text, with the parameters it has; without one it goes."""
        if not text:
            self.remove(name)
            return
        line = self.first(name)
        self.set(name if line is None else line.head, escape(text))

    def add(self, item: Item) -> None:
        """Put a line behind the other lines; a component behind everything."""
        behind = (
            index
            for index, one in enumerate(self.items)
            if (isinstance(one, Line) and one.name == "END")
            or (isinstance(item, Line) and isinstance(one, Component))
        )
        self.items.insert(next(behind), item)

    def remove(self, name: str) -> None:
        """Take all lines of a property away."""
        self.items = [one for one in self.items if not (isinstance(one, Line) and one.name == name)]

    def replace(self, old: Item, new: Item | None) -> None:
        """Put something else in the place of a line or component, or nothing."""
        index = next(index for index, one in enumerate(self.items) if one is old)
        self.items[index : index + 1] = [] if new is None else [new]


def read(text: str) -> Component:
    """Take a calendar object apart.

    Raises:
        Unreadable: It is not one `VCALENDAR` from its beginning to its end.
    """
    # The white space around a property's text is lost on the way, and with it the last line's end.
    if not text.endswith("\n"):
        text += newline_of(text)
    root = Component("", [])
    open_ = [root]
    for raw, name in _LOGICAL.findall(text):
        line = Line(raw, name)
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
    """Give the UID of a calendar object, empty where none can be read."""
    try:
        found = (one.text("UID") for one in read(text).components("VEVENT", "VTODO", "VJOURNAL"))
        return next(found, "")
    except Unreadable:
        return ""


def escape(text: str) -> str:
    """Write a text as a value.

    Raises:
        InvalidInput: It holds control characters, which no calendar may.
    """
    if _CONTROLS.search(text):
        raise errors.InvalidInput("A text for a calendar cannot hold control characters: send it without.")
    return vcard.escape(text)


def texts(line: Line) -> list[str]:
    """Read a list of texts, such as the categories."""
    parts = re.findall(r"((?:\\.|[^,\\])+)", line.value, re.DOTALL)
    return [text for part in parts if (text := unescape(part).strip())]


def newline_of(text: str) -> str:
    """Tell how lines end in a text."""
    return "\n" if "\n" in text and "\r\n" not in text else "\r\n"
