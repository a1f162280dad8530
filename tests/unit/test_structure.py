"""The rules of the house that no linter knows."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.toolsets import TOOLSETS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "nextcloud_mcp_server"
MODULES = sorted(PACKAGE.rglob("*.py"))
ALL = sorted([*MODULES, *(ROOT / "tests").rglob("*.py")])
LONGEST_MODULE = 400
LONGEST_FUNCTION = 50
#: What `tools` holds besides one file per Nextcloud app.
NO_APP = {
    "__init__", "access", "answer", "arguments", "boundary", "connection", "guard", "progress", "research", "result",
    "state", "toolset",
}  # fmt: skip
TOOLSET = re.compile(r'^\w+ = Toolset\("(?P<app>\w+)"\)$', re.MULTILINE)
VERSIONS = re.compile(r"""["']20\d\d-\d\d-\d\d["']""")
NOQA = re.compile(r"#\s*noqa(?P<codes>:\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*)?(?P<reason>.*)$", re.MULTILINE)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def below(names: Iterator[str], package: str) -> bool:
    return any(found == package or found.startswith(f"{package}.") for found in names)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_is_at_most_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_function_is_at_most_50_lines(path: Path) -> None:
    long = {
        node.name: length
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    }

    assert long == {}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_settings_read_the_environment(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert name(path).endswith("/settings.py") or not re.search(r"\bos\.environ\b|\bgetenv\(", text)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_wire_compares_protocol_versions(path: Path) -> None:
    if name(path).endswith("protocol/wire.py"):
        return

    compared = [
        ast.unparse(node)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Compare) and VERSIONS.search(ast.unparse(node))
    ]

    assert compared == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_storage_imports_the_database_library(path: Path) -> None:
    inside = "storage" in path.relative_to(PACKAGE).parts

    assert inside or not below(imported(path), "sqlalchemy")


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_nothing_uses_asyncio_directly(path: Path) -> None:
    assert not below(imported(path), "asyncio")


@pytest.mark.parametrize("path", ALL, ids=name)
def test_annotations_are_read_at_run_time(path: Path) -> None:
    assert "__future__.annotations" not in set(imported(path))


@pytest.mark.parametrize("path", [path for path in MODULES if path.name == "__init__.py"], ids=name)
def test_an_init_holds_one_docstring(path: Path) -> None:
    module = tree(path)

    assert len(module.body) == 1
    assert ast.get_docstring(module)


@pytest.mark.parametrize("path", ALL, ids=name)
def test_each_exception_from_a_lint_rule_has_a_code_and_a_reason(path: Path) -> None:
    if path == Path(__file__):
        return

    bare = [
        match.group()
        for match in NOQA.finditer(path.read_text(encoding="utf-8"))
        if not match["codes"] or len(match["reason"].strip(" #().—-")) < len("reason")
    ]

    assert bare == []


def toolsets() -> dict[Path, str]:
    """List the modules of tools with the Nextcloud app they belong to."""
    found = {
        path: TOOLSET.search(path.read_text(encoding="utf-8")) for path in (PACKAGE / "tools").glob("*.py")
    }
    return {path: match["app"] for path, match in found.items() if match and path.stem not in NO_APP}


@pytest.mark.parametrize("path", sorted((PACKAGE / "tools").glob("*.py")), ids=name)
def test_tools_of_an_app_know_no_mcp(path: Path) -> None:
    assert path.stem in NO_APP or not below(imported(path), "mcp")


def test_tools_of_an_app_have_their_client_and_are_registered() -> None:
    assert toolsets()
    for path, app in toolsets().items():
        assert (PACKAGE / "nextcloud" / f"{app}.py").is_file(), path
        main = PACKAGE / "tools" / f"{app}.py"
        assert app in TOOLSETS, (
            f"{path} is of no toolset: add one to toolsets.py, or name the module after its app."
        )
        assert TOOLSETS[app].module == app, path
        assert path == main or f"nextcloud_mcp_server.tools.{path.stem}" in set(imported(main)), path


def test_the_drawing_of_the_errors_is_the_tree_of_the_classes() -> None:
    drawn: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    (?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)$", line)
        if found:
            drawn.append((len(found["indent"]) // 4, found["name"]))

    assert drawn == list(_classes(errors.NextcloudMcpError, 0))


def _classes(cls: type[Exception], depth: int) -> Iterator[tuple[int, str]]:
    yield depth, cls.__name__
    for child in cls.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _classes(child, depth + 1)


def test_every_ignored_lint_rule_says_why() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lint = tomllib.loads(text)["tool"]["ruff"]["lint"]
    codes = [*lint["ignore"], *(code for codes in lint["per-file-ignores"].values() for code in codes)]

    unexplained = [code for code in codes if not re.search(rf'"{code}",\s*# \S+', text)]

    assert unexplained == []


def test_the_folder_of_migrations_does_not_shadow_the_library() -> None:
    assert not (ROOT / "alembic" / "__init__.py").exists()
