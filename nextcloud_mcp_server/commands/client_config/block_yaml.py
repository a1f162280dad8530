"""Changes one entry of a YAML text of plain blocks by indentation, and leaves all others unchanged.

goose writes its settings in this form. This is not a YAML parser: a text in any other form is refused, and the
changed text is checked.
"""

import re
from collections.abc import Sequence

_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'"""
_KEY = re.compile(r"""(?P<key>[A-Za-z_][\w.-]*|"[^"\\]*"|'[^']*')\s*:(?:\s+(?P<value>.*))?""")
#: The value that begins in a line, after the dashes of lists and after a key; a colon before a space ends a key.
_VALUE = re.compile(
    rf"""(?:-(?: +|$))*(?:(?:{_QUOTED}|[^\s"'\[{{&*!|>#](?:[^:]|:(?=\S))*?)\s*:(?:\s+|$))?(?P<value>.*)"""
)
_WHOLE = re.compile(rf"(?:{_QUOTED})\s*(?:#.*)?")
_TEXT = re.compile(r"[|>][-+0-9]*\s*(?:#.*)?")
_BLANK = " \t"
#: Line ends for some YAML parsers and not for others.
_ODD_LINE_END = re.compile("[\r\x0b\x0c\x85\u2028\u2029]")


def put(text: str, entry: str) -> str:
    """Set the one entry of the one group that `entry` contains, indented by two; both may be new.

    Raises:
      ValueError: The text is not one of plain blocks.
    """
    group, *ours = entry.split("\n")
    name = ours[0].strip()
    lines = text.removesuffix("\n").split("\n") if text else []
    said = _said(lines)
    _require_blocks(lines, said)
    if lines and not text.endswith("\n") and _in_texts(lines)[-1]:
        raise ValueError("its last line is part of a text, and has no end")
    at = _only([number for number, line in enumerate(lines) if _key(line) == _key(group)], group)
    if at is None:
        new = [*lines, *entry.split("\n")]
        _require_entry_alone(lines, new, group, ours)
        return "\n".join([*new, ""])
    _open(lines, at, group)
    end = _end(lines, said, at + 1, 0)
    inside = [number for number in range(at + 1, end) if said[number]]
    indent = min((_indent(lines[number]) for number in inside), default=2)
    own = [number for number in inside if _indent(lines[number]) == indent]
    if indent == 0 or not all(_key(lines[number].strip()) for number in own):
        raise ValueError(f"what is below {group} are not entries")
    old = _only([number for number in own if _key(lines[number].strip()) == _key(name)], name)
    start, stop = (end, end) if old is None else (old, _end(lines, said, old + 1, indent))
    shifted = [" " * indent + line.removeprefix("  ") for line in ours]
    new = [*lines[:start], *shifted, *lines[stop:]]
    _require_entry_alone(lines, new, group, shifted)
    return "\n".join([*new, ""])


def _require_entry_alone(before: list[str], after: list[str], group: str, ours: list[str]) -> None:
    """Check by parsing both texts that only the entry has changed."""
    key, name = _key(group) or "", _key(ours[0].strip()) or ""
    old, new = _blocks(before), _blocks(after)
    entries = _blocks(old.pop(key, [])[1:])
    if _blocks(new.pop(key, [])[1:]) != {**entries, name: ours} or new != old:
        raise ValueError("the change would not be the entry alone")


def _blocks(lines: Sequence[str]) -> dict[str, list[str]]:
    """Split lines into blocks that begin with a key at the first key's indentation; drop blank lines."""
    said, found = _said(lines), dict[str, list[str]]()
    indent = next((_indent(line) for number, line in enumerate(lines) if said[number]), 0)
    block = list[str]()
    for number, line in enumerate(lines):
        if said[number]:
            key = _key(line.strip()) if _indent(line) == indent else None
            block = block if key is None else found.setdefault(key, [])
            block.append(line)
    return found


def _only(found: list[int], name: str) -> int | None:
    if len(found) > 1:
        raise ValueError(f"it names {name} twice")
    return found[0] if found else None


def _open(lines: list[str], at: int, group: str) -> None:
    """Prepare an empty group for entries on the next lines; refuse one written inline."""
    match = _KEY.fullmatch(lines[at].rstrip())
    value = (match["value"] or "") if match else ""
    if re.fullmatch(r"(\{\s*\}|null|~)(\s+#.*)?", value):
        lines[at] = group
    elif value and not value.startswith("#"):
        raise ValueError(f"{group} is written in one line")


def _require_blocks(lines: list[str], said: list[bool]) -> None:
    inside, has_key = _in_texts(lines), False
    for number, line in enumerate(lines, 1):
        if _ODD_LINE_END.search(line):
            raise ValueError(f"line {number} holds a line end that is none everywhere")
        if "\t" in line[: len(line) - len(line.lstrip(_BLANK))]:
            raise ValueError(f"line {number} begins with a tab")
        if inside[number - 1] or not said[number - 1]:
            continue
        _require_whole(line, number)
        if has_key and (line.startswith((" ", "- ")) or line.rstrip() == "-"):
            continue
        if line.rstrip() == "---" and not any(said[: number - 1]):
            continue
        if _key(line) is None:
            raise ValueError(f"line {number} is no key with its value")
        has_key = True


def _require_whole(line: str, number: int) -> None:
    """Check that a value is complete and ends in its line."""
    value = _value(line)
    if value.startswith(("&", "*")):
        raise ValueError(f"line {number} has an anchor (&) or an alias (*), and the entry may be part of it")
    if re.match(r"[|>]\d?\+", value):
        raise ValueError(f"line {number} begins a text (+) to which the blank lines behind it belong")
    if value.startswith(('"', "'")) and not _WHOLE.fullmatch(value):
        raise ValueError(f"line {number} begins a quoted text that does not end in it")
    if value.startswith(("[", "{")):
        bare = re.sub(r"\s#.*", "", re.sub(_QUOTED, "", value))
        if re.search(r"[\"']|[\[{,]\s*[&*]", bare) or any(
            bare.count(left) != bare.count(right) for left, right in ("[]", "{}")
        ):
            raise ValueError(f"line {number} begins a list or mapping in brackets that does not end in it")


def _value(line: str) -> str:
    match = _VALUE.fullmatch(line.strip())
    return match["value"] if match else ""


def _in_texts(lines: Sequence[str]) -> list[bool]:
    """Tell of each line whether it belongs to a block scalar that an earlier line begins with `|` or `>`."""
    inside, above = list[bool](), -1
    for line in lines:
        if above >= 0 and line.strip(" ") and _indent(line) <= above:
            above = -1
        inside.append(above >= 0)
        comment = line.lstrip(_BLANK).startswith("#")
        if above < 0 and not comment and _TEXT.fullmatch(_value(line)):
            above = _indent(line)
    return inside


def _said(lines: Sequence[str]) -> list[bool]:
    """Tell of each line whether it has content; a line of a block scalar may look like a comment."""
    inside = _in_texts(lines)
    return [
        bool(line.strip(_BLANK)) and (inside[number] or not line.lstrip(_BLANK).startswith("#"))
        for number, line in enumerate(lines)
    ]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _key(line: str) -> str | None:
    match = _KEY.fullmatch(line.rstrip())
    return match["key"].strip("\"'") if match else None


def _end(lines: list[str], said: list[bool], first: int, indent: int) -> int:
    """Return the line after a block; blank lines and comments before the next content belong to that."""
    end = first
    for number in range(first, len(lines)):
        line = lines[number]
        if not said[number]:
            continue
        # The items of a list may have the same indentation as its key.
        if _indent(line) <= indent and not (_indent(line) == indent and re.match(r" *-( |$)", line)):
            break
        end = number + 1
    return end
