"""Changes one entry of a YAML text of plain blocks, by the indentation of its lines, and leaves the others alone.

That is how goose writes its settings. There is no reader of YAML here: a text that is written in any other
way is refused.
"""

import re

_KEY = re.compile(r"""(?P<key>[A-Za-z_][\w.-]*|"[^"\\]*"|'[^']*')\s*:(?:\s+(?P<value>.*))?""")


def put(text: str, entry: str) -> str:
    """Set the one entry of the one group that `entry` holds, indented by two; both may be new.

    Raises:
        ValueError: The text is not one of plain blocks.
    """
    group, *ours = entry.split("\n")
    lines = text.removesuffix("\n").split("\n") if text else []
    _require_blocks(lines)
    at = _only([number for number, line in enumerate(lines) if _key(line) == _key(group)], group)
    if at is None:
        return "\n".join([*lines, entry, ""])
    _open(lines, at, group)
    end = _end(lines, at + 1, 0)
    inside = [number for number in range(at + 1, end) if _is_said(lines[number])]
    indent = min((_indent(lines[number]) for number in inside), default=2)
    own = [number for number in inside if _indent(lines[number]) == indent]
    if indent == 0 or not all(_key(lines[number].strip()) for number in own):
        raise ValueError(f"what is below {group} are not entries")
    names = [number for number in own if _key(lines[number].strip()) == _key(ours[0].strip())]
    old = _only(names, ours[0].strip())
    start, stop = (end, end) if old is None else (old, _end(lines, old + 1, indent))
    lines[start:stop] = [" " * indent + line.removeprefix("  ") for line in ours]
    return "\n".join([*lines, ""])


def _only(found: list[int], name: str) -> int | None:
    if len(found) > 1:
        raise ValueError(f"it names {name} twice")
    return found[0] if found else None


def _open(lines: list[str], at: int, group: str) -> None:
    """Have a group go on in the next line, where it is empty."""
    match = _KEY.fullmatch(lines[at].rstrip())
    value = (match["value"] or "") if match else ""
    if re.fullmatch(r"(\{\s*\}|null|~)(\s+#.*)?", value):
        lines[at] = group
    elif value and not value.startswith("#"):
        raise ValueError(f"{group} is written in one line")


def _require_blocks(lines: list[str]) -> None:
    for number, line in enumerate(lines, 1):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise ValueError(f"line {number} begins with a tab")
        if not _is_said(line) or line.startswith((" ", "- ")) or line.rstrip() == "-":
            continue
        if line.rstrip() == "---" and not any(map(_is_said, lines[: number - 1])):
            continue
        if _key(line) is None:
            raise ValueError(f"line {number} is no key with its value")


def _is_said(line: str) -> bool:
    """Tell whether a line is more than blank or a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _key(line: str) -> str | None:
    match = _KEY.fullmatch(line.rstrip())
    return match["key"].strip("\"'") if match else None


def _end(lines: list[str], first: int, indent: int) -> int:
    """Find the line behind a block; blank lines and comments ahead of what follows belong to that."""
    end = first
    for number in range(first, len(lines)):
        line = lines[number]
        if not _is_said(line):
            continue
        # The items of a list may stand as far left as its key.
        if _indent(line) <= indent and not (_indent(line) == indent and re.match(r" *-( |$)", line)):
            break
        end = number + 1
    return end
