"""Changes one table of a TOML text, and leaves every other line unchanged.

The standard library reads TOML and does not write it. A table with a header of its own (`[group.name]`), as Codex
writes it, can be replaced line by line; any other form is refused.
"""

import tomllib
from typing import Any

_PATH = 2


def put(text: str, entry: str) -> str:
    """Set the table `[group.name]` that `entry` contains, including its subtables.

    Raises:
      ValueError: The text is not TOML, or the table has no header.
    """
    _read(text)
    lines = text.removesuffix("\n").split("\n") if text else []
    table = _path(entry.partition("\n")[0])
    heads = [number for number, line in enumerate(lines) if _path(line)]
    ours = [number for number in heads if _path(lines[number])[:_PATH] == table]
    for start in reversed(ours):
        del lines[start : _end(lines, start, heads)]
    new = entry.rstrip("\n").split("\n")
    if ours:
        lines[ours[0] : ours[0]] = new
    else:
        lines += ["", *new] if lines and lines[-1].strip() else new
    changed = "\n".join([*lines, ""])
    try:
        tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        raise ValueError(f"{table[0]} is not written as tables with headers") from None
    return changed


def _read(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is not TOML: {error}") from None


def _path(line: str) -> tuple[str, ...]:
    """Return the path in the header of a table; empty for any other line."""
    if not line.lstrip().startswith("[") or line.lstrip().startswith("[["):
        return ()
    try:
        inside: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while inside:
        ((name, inside),) = inside.items()
        path.append(name)
    return tuple(path)


def _end(lines: list[str], start: int, heads: list[int]) -> int:
    """Return the line after a table; blank lines and comments before the next header belong to that."""
    end = next((number for number in heads if number > start), len(lines))
    end = next((n for n in range(start + 1, end) if lines[n].lstrip().startswith("[[")), end)
    while end - 1 > start and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end
