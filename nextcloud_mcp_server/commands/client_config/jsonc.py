"""Changes one entry of a JSON text; keeps comments, order, spelling and trailing commas.

For the settings of chat clients, many of which are JSON with comments: parsing and rewriting the text would lose the
users' comments.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

_WHITE = " \t\r\n"
_DEEPEST = 100
_START = re.compile(r'["\-0-9tfn]')


class NotJson(ValueError):
    """A text is not JSON, not even with comments and trailing commas; gives the line."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its position; an object has its members in order."""

    start: int
    end: int
    data: object
    members: tuple["Member", ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object: the position of its name, and its value."""

    name: str
    start: int
    value: Value


def read(text: str) -> Value:
    """Parse a text with comments and trailing commas.

    Raises:
      NotJson: It is invalid.
    """
    return _Reader(text).document()


def put(text: str, group: str, name: str, entry: Mapping[str, object]) -> str:
    """Set one entry of a group, both of which may be new, and return the text.

    Raises:
      NotJson: The text is not JSON.
      ValueError: There is a value of another type where the group or entry belongs.
    """
    if not text.strip():
        return json.dumps({group: {name: dict(entry)}}, indent=2, ensure_ascii=False) + "\n"
    root = read(text)
    writer = _Writer(text, root)
    top = _only(root, group, "the file")
    if top is None:
        return writer.insert(root, group, {name: dict(entry)})
    own = _only(top.value, name, f'"{group}"')
    if own is None:
        return writer.insert(top.value, name, dict(entry))
    return writer.replace(own, dict(entry))


def _only(value: Value, name: str, place: str) -> Member | None:
    if not isinstance(value.data, dict):
        raise ValueError(f"{place} is not an object")  # noqa: TRY004 - of a text, not of our own call
    found = [member for member in value.members if member.name == name]
    if len(found) > 1:
        raise ValueError(f'{place} names "{name}" twice')
    return found[0] if found else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_SCALARS = json.JSONDecoder(parse_constant=_refuse_constant)


def _fail(text: str, at: int) -> NoReturn:
    line = text.count("\n", 0, at) + 1
    raise NotJson(f"line {line} is not JSON")


def _past_gap(text: str, at: int) -> int:
    """Return the position after white space and comments."""
    while True:
        while text[at : at + 1] and text[at] in _WHITE:
            at += 1
        if text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                _fail(text, at)
            at = end + 2
        else:
            return at


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    depth: int = 0

    def document(self) -> Value:
        self._skip()
        value = self._value()
        self._skip()
        if self.at < len(self.text):
            self._fail()
        return value

    def _fail(self) -> NoReturn:
        _fail(self.text, self.at)

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self) -> None:
        self.at = _past_gap(self.text, self.at)

    def _value(self) -> Value:
        match self._next():
            case "{":
                return self._nested(self._object)
            case "[":
                return self._nested(self._array)
            case _:
                return self._scalar()

    def _nested(self, read_one: Any) -> Value:  # noqa: ANN401 - one of the two methods below
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail()
        value = cast("Value", read_one())
        self.depth -= 1
        return value

    def _scalar(self) -> Value:
        start = self.at
        if not _START.match(self._next()):
            self._fail()
        try:
            data, self.at = _SCALARS.raw_decode(self.text, start)
        except ValueError:
            self._fail()
        return Value(start, self.at, data)

    def _object(self) -> Value:
        start, members = self.at, list[Member]()
        self._open()
        while self._next() != "}":
            if self._next() != '"':
                self._fail()
            name = self._scalar()
            self._skip()
            if self._next() != ":":
                self._fail()
            self._open()
            members.append(Member(cast("str", name.data), name.start, self._value()))
            self._separate("}")
        self.at += 1
        return Value(start, self.at, {one.name: one.value.data for one in members}, tuple(members))

    def _array(self) -> Value:
        start, items = self.at, list[object]()
        self._open()
        while self._next() != "]":
            items.append(self._value().data)
            self._separate("]")
        self.at += 1
        return Value(start, self.at, items)

    def _open(self) -> None:
        self.at += 1
        self._skip()

    def _separate(self, end: str) -> None:
        """Skip a comma, which may also be a trailing one."""
        self._skip()
        if self._next() == ",":
            self._open()
        elif self._next() != end:
            self._fail()


@dataclass(slots=True)
class _Writer:
    text: str
    root: Value
    unit: str = field(init=False)

    def __post_init__(self) -> None:
        first = self.root.members[0].start if self.root.members else 0
        self.unit = self._indent_of(first) or "  "

    def replace(self, member: Member, entry: object) -> str:
        where = member.value
        if where.data == entry:
            return self.text
        return self._spliced(where.start, where.end, self._written(entry, self._indent_of(member.start)))

    def insert(self, group: Value, name: str, entry: object) -> str:
        close = group.end - 1
        after = group.members[-1].value.end if group.members else group.start + 1
        comma = self._comma(after)
        if group.members and "\n" not in self.text[group.start : group.end]:
            inline = json.dumps({name: entry}, ensure_ascii=False)[1:-1]
            if comma is None:
                return self._spliced(after, after, f", {inline}")
            return self._spliced(comma + 1, comma + 1, f" {inline},")
        outer = self._indent_of(group.start)
        inner = self._indent_of(group.members[0].start) if group.members else ""
        inner = inner if len(inner) > len(outer) else outer + self.unit
        line = f"{inner}{json.dumps(name, ensure_ascii=False)}: {self._written(entry, inner)}"
        if group.members and comma is not None:
            line += ","
        start = self.text.rfind("\n", after, close) + 1
        if start and not self.text[start:close].strip():
            text = self._spliced(start, start, f"{line}\n")
        else:
            text = self._spliced(close, close, f"\n{line}\n{outer}")
        if group.members and comma is None:
            text = f"{text[:after]},{text[after:]}"
        return text

    def _comma(self, after: int) -> int | None:
        """Return the position of the comma after the last member, past comments."""
        at = _past_gap(self.text, after)
        return at if self.text.startswith(",", at) else None

    def _written(self, entry: object, indent: str) -> str:
        return json.dumps(entry, indent=self.unit, ensure_ascii=False).replace("\n", f"\n{indent}")

    def _indent_of(self, at: int) -> str:
        """Return the indentation of the line at a position."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _spliced(self, start: int, end: int, new: str) -> str:
        return self.text[:start] + new + self.text[end:]
