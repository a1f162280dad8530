"""Recorded responses with one member missing, null, of another type, too large, or added."""

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast
from xml.etree import ElementTree as ET
from zlib import crc32

from tests.contract.recording import Recording

#: A missing member.
MISSING: Final = object()
#: Values in place of a member: null, other types, and unrealistic numbers.
INSTEAD: Final[Sequence[object]] = cast(
    "Sequence[object]",
    (
        MISSING, None, "", "x", "\u202e\r\n", "-1", -1, 0, 10**30, 1.5, True, [], {}, [None], [[]], {"x": None},
        [{"x": []}], "9" * 400,
    ),
)  # fmt: skip
#: The same for the text of an element or a line.
TEXTS: Final = ("", "x", "-1", "9" * 400, "2026-13-45", "\u202e", "null", "https://[", "20260101T000000Z")

_T = TypeVar("_T")
_CALENDAR_OR_CARD: Final = ("BEGIN:VCALENDAR", "BEGIN:VCARD")

Element = ET.Element


@dataclass(frozen=True, slots=True)
class Choice:
    """Selects some changes of a member, depending only on its parameters and the member."""

    name: str
    turn: int
    each: int

    def of(self, ways: Sequence[_T], member: object) -> list[_T]:
        start = crc32(f"{self.name} {member}".encode()) + self.turn * self.each
        return [ways[(start + step) % len(ways)] for step in range(min(self.each, len(ways)))]


def odd_bodies(recording: Recording, *, each: int, turn: int) -> Iterator[tuple[str, bytes]]:
    """Yield the body with each member in turn changed in `each` ways, with a name for the change.

    Another `turn` selects other changes. Of a list, the first and the last entry stand for all.
    """
    choice = Choice(recording.name, turn, each)
    match kind_of(recording):
        case "json":
            yield from _odd_json(recording.json, choice)
        case "xml":
            yield from _odd_xml(recording.text, choice)
        case _:
            for label, lines in _odd_lines(recording.text, choice):
                yield label, lines.encode()


def kind_of(recording: Recording) -> str:
    """Return the type of a body: json, xml, lines, or nothing."""
    text = recording.text
    if text.startswith(_CALENDAR_OR_CARD):
        return "lines"
    if text.startswith(("<?xml", "<d:", "<oc")):
        return "xml" if _is_xml(text) else ""
    try:
        return "json" if text and recording.json is not ... else ""
    except ValueError:
        return ""


def _is_xml(text: str) -> bool:
    try:
        _parsed(text)
    except ET.ParseError:
        return False
    return True


def _odd_json(good: object, choice: Choice) -> Iterator[tuple[str, bytes]]:
    for path in _paths(good, ()):
        for value in choice.of(INSTEAD, path):
            changed = deepcopy(good)
            parent = _at(changed, path[:-1])
            if value is MISSING:
                del parent[path[-1]]
            else:
                parent[path[-1]] = value
            yield f"{path} {_named(value)}", json.dumps(changed).encode()
        if isinstance(_at(good, path), dict):
            changed = deepcopy(good)
            _at(changed, path)["added"] = {"x": [1]}
            yield f"{path} with one more", json.dumps(changed).encode()
    for value in choice.of(INSTEAD[1:], ""):
        yield f"whole {_named(value)}", json.dumps(value).encode()


def _paths(value: object, above: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """List the paths of the members."""
    below: list[tuple[Any, object]] = []
    if isinstance(value, dict):
        below = list(cast("dict[str, object]", value).items())
    elif isinstance(value, list):
        entries = list(enumerate(cast("list[object]", value)))
        below = entries[:1] + entries[1:][-1:]
    for step, inner in below:
        yield (*above, step)
        yield from _paths(inner, (*above, step))


def _at(value: Any, path: tuple[Any, ...]) -> Any:  # noqa: ANN401 - JSON is anything
    for step in path:
        value = value[step]
    return value


def _named(value: object) -> str:
    return "missing" if value is MISSING else f"= {value!r:.30}"


def _parsed(text: str) -> Element:
    return ET.fromstring(text)


def _odd_xml(text: str, choice: Choice) -> Iterator[tuple[str, bytes]]:
    good = _parsed(text)
    for entry in list(good)[2:-1]:
        # The first entry is the folder itself, so two stand for all that follow.
        good.remove(entry)
    for number, member in enumerate(good.iter()):
        for change in choice.of(_CHANGES, number) if number else ():
            root = deepcopy(good)
            every = list(root.iter())
            parent = next(one for one in every if every[number] in list(one))
            change(parent, every[number], choice.of(TEXTS, number)[0])
            yield f"{member.tag} {number} {change.__name__}", ET.tostring(root)
        data = member.text or ""
        for label, lines in _odd_lines(data, choice) if data.startswith(_CALENDAR_OR_CARD) else ():
            root = deepcopy(good)
            list(root.iter())[number].text = lines
            yield f"{member.tag} {label}", ET.tostring(root)


def _gone(parent: Element, found: Element, _: str) -> None:
    parent.remove(found)


def _emptied(_: Element, found: Element, __: str) -> None:
    found.text = None
    for inner in list(found):
        found.remove(inner)


def _worded(_: Element, found: Element, text: str) -> None:
    found.text = text


def _filled(_: Element, found: Element, __: str) -> None:
    found.append(_parsed("<x xmlns='DAV:'><response><href>x</href></response></x>"))


def _doubled(parent: Element, found: Element, _: str) -> None:
    parent.append(deepcopy(found))


def _renamed(_: Element, found: Element, __: str) -> None:
    found.tag = "{DAV:}odd"


#: Changes an element, given the one around it and a text.
_Change = Callable[[Element, Element, str], None]
_CHANGES: Final[tuple[_Change, ...]] = (_gone, _emptied, _worded, _filled, _doubled, _renamed)


def _odd_lines(text: str, choice: Choice) -> Iterator[tuple[str, str]]:
    """Change each line of a calendar or a card."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        name, _, value = line.partition(":")
        ways: list[list[str]] = [
            [], [name], [line, line], [f"{name};X=:{value}"], [f"{name};TZID=Nowhere/None:{value}"],
            *([f"{name}:{odd}"] for odd in TEXTS),
        ]  # fmt: skip
        for changed in choice.of(ways, line):
            yield (
                f"line {number} {changed!s:.60}",
                "\r\n".join([*lines[:number], *changed, *lines[number + 1 :], ""]),
            )
