"""The table of guards: what each prevents, code with and without it, and tests that must fail."""

import ast
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLES = Path(__file__).parent / "guards"
PACKAGE = "nextcloud_mcp_server"


@dataclass(frozen=True, slots=True)
class Guard:
    """One row. `path` is relative to the package, `tests` are files or `file::test` relative to the root.

    `survives` gives the reason why no test fails without the guard; None where one must. `endless` says that a test
    without the guard may never end; elsewhere a run that is too slow proves nothing.
    """

    prevents: str
    path: str
    code: str
    mutated: str
    tests: tuple[str, ...]
    survives: str | None = None
    endless: bool = False

    @property
    def file(self) -> str:
        """The file, relative to the root."""
        return f"{PACKAGE}/{self.path}"

    def faults(self, root: Path = ROOT) -> list[str]:
        """List the errors of the row, after changes of the code or the tests."""
        source = root / self.file
        text = source.read_text(encoding="utf-8") if source.is_file() else ""
        found = [f"the code is in {self.file} {text.count(self.code)} times"] * (text.count(self.code) != 1)
        if not found and not _parses(self.apply(text)):
            found.append("the mutated code is no Python")
        found += ["the mutated code is the same"] * (self.code == self.mutated)
        found += ["no test is named"] * (not self.tests)
        return found + [f"there is no {test}" for test in self.tests if not _is_there(root, test)]

    def apply(self, text: str) -> str:
        """Remove the guard from its file's text."""
        return text.replace(self.code, self.mutated, 1)

    def function(self, root: Path = ROOT) -> str:
        """Return the function that contains the guard, with its class; "" outside of functions."""
        text = (root / self.file).read_text(encoding="utf-8")
        line = text[: text.index(self.code)].count("\n") + 1 + _blank_lines(self.code)
        return ".".join(name for first, last, name in _definitions(text) if first <= line <= last)


def read_guards(tables: Path = TABLES) -> list[Guard]:
    """Read all tables, by package."""
    return [
        Guard(
            prevents=row["prevents"],
            path=row["file"],
            code=row["code"],
            mutated=row["mutated"],
            tests=tuple(row["tests"]),
            survives=row.get("survives"),
            endless=row.get("endless", False),
        )
        for table in sorted(tables.glob("*.toml"))
        for row in tomllib.loads(table.read_text(encoding="utf-8"))["guard"]
    ]


def chosen(guards: Sequence[Guard], pattern: str) -> list[Guard]:
    """Select the guards whose sentence or file matches a pattern."""
    wanted = re.compile(pattern, re.IGNORECASE)
    return [guard for guard in guards if wanted.search(guard.prevents) or wanted.search(guard.path)]


@cache
def _definitions(text: str) -> list[tuple[int, int, str]]:
    """List the functions and classes of a module with their first and last lines, outer ones first."""
    return sorted(
        (min([node.lineno, *(one.lineno for one in node.decorator_list)]), node.end_lineno or 0, node.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


@cache
def _tests(text: str) -> frozenset[str]:
    return frozenset(
        node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _blank_lines(code: str) -> int:
    return len(code) - len(code.lstrip("\n"))


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _is_there(root: Path, test: str) -> bool:
    file, _, name = test.partition("::")
    path = root / file
    if not path.is_file():
        return False
    return not name or name in _tests(path.read_text(encoding="utf-8"))
