"""The table of requirements of the client names tests that are there, and has a row for every line."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
TABLE = (TESTS.parent / "docs" / "client-requirements.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (?P<section>[AB]\d+)\.(?P<number>\d+) \| (?P<what>[^|]+) \| (?P<shown_by>.+) \|$", re.MULTILINE
)
FILE = re.compile(r"`((?:unit|integration|conformance|e2e|security)/[\w/]+\.py)`: ((?:`test_\w+`(?:, )?)+)")
#: How many lines each section of the two designs has.
LINES = {
    "A1": 8, "A2": 6, "A3": 7, "A4": 5, "A5": 5, "A6": 5, "A7": 3, "A8": 3, "A9": 3,
    "B0": 11, "B1": 7, "B2": 4, "B3": 14, "B4": 4, "B5": 3, "B6": 11, "B7": 15, "B8": 6,
    "B9": 7, "B10": 6, "B11": 5, "B12": 4, "B13": 2, "B14": 3, "B15": 12,
}  # fmt: skip


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the names of the tests in a file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def is_missing(file: str, name: str) -> bool:
    """Say whether a named test is not there."""
    return not (TESTS / file).is_file() or name not in names_in(file)


def test_every_line_has_one_row() -> None:
    numbers = Counter((row["section"], int(row["number"])) for row in ROW.finditer(TABLE))

    assert set(numbers) == {(section, n + 1) for section, lines in LINES.items() for n in range(lines)}
    assert set(numbers.values()) == {1}
    assert f"{sum(LINES.values())} lines" in TABLE


def test_every_named_test_is_there() -> None:
    missing = [
        f"{row['section']}.{row['number']}: {file}: {name}"
        for row in ROW.finditer(TABLE)
        for file, names in FILE.findall(row["shown_by"])
        for name in re.findall(r"test_\w+", names)
        if is_missing(file, name)
    ]

    assert missing == []


def test_a_row_without_a_test_has_a_reason() -> None:
    silent = [
        f"{row['section']}.{row['number']}"
        for row in ROW.finditer(TABLE)
        if not FILE.search(row["shown_by"]) and len(row["shown_by"]) < len("A reason.")
    ]
    unread = [row["section"] for row in ROW.finditer(FILE.sub("", TABLE)) if "test_" in row["shown_by"]]

    assert silent == []
    assert unread == []
