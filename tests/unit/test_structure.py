"""The rules of the house that no linter knows."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from nextcloud_mcp_server import bridge_errors, errors
from nextcloud_mcp_server.declarations.apps import APPS, NAMES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "nextcloud_mcp_server"
MODULES = sorted(PACKAGE.rglob("*.py"))
ALL = sorted([*MODULES, *(ROOT / "tests").rglob("*.py")])
LONGEST_MODULE = 400
LONGEST_FUNCTION = 50
VERSIONS = re.compile(r"""["']20\d\d-\d\d-\d\d["']""")
NOQA = re.compile(r"#\s*noqa(?P<codes>:\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*)?(?P<reason>.*)$", re.MULTILINE)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Find them without a look into expressions, of which most of a module consists."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from functions(child)


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def below(names: Iterator[str], package: str) -> bool:
    return any(found == package or found.startswith(f"{package}.") for found in names)


def test_a_module_is_at_most_400_lines() -> None:
    assert [name(path) for path in MODULES if len(text_of(path).splitlines()) > LONGEST_MODULE] == []


def test_a_function_is_at_most_50_lines() -> None:
    long = {
        f"{name(path)} {node.name}": length
        for path in MODULES
        for node in functions(tree(path))
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    }

    assert long == {}


def test_only_the_settings_read_the_environment() -> None:
    others = [path for path in MODULES if not name(path).endswith("/settings/environment.py")]

    assert [name(path) for path in others if re.search(r"\bos\.environ\b|\bgetenv\(", text_of(path))] == []


def test_only_the_wire_compares_protocol_versions() -> None:
    compared = [
        f"{name(path)}: {ast.unparse(node)}"
        for path in MODULES
        if not name(path).endswith("protocol/wire.py") and VERSIONS.search(text_of(path))
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Compare) and VERSIONS.search(ast.unparse(node))
    ]

    assert compared == []


#: Modules that parse JSON without `untrusted.read_json`: it is this server's own, or the module is a guard itself.
OWN_JSON = frozenset(
    {
        "auth/builtin/authorization.py",
        "auth/consent/oidc_sign_in.py",
        "auth/strict_json.py",
        "bridge/stdio.py",
        "formats/untrusted.py",
        "formats/windows_zones.py",
        "protocol/task_wire.py",
        "protocol/wire.py",
        "tools/schemas.py",
        "web/callback_result.py",
        "web/cookies.py",
        "web/session_ids.py",
    }
)


def test_json_of_others_is_parsed_in_one_way() -> None:
    """`json.loads` raises RecursionError, too."""
    outside = ("commands/", "demo/", "sandbox/", "storage/")
    parsing = {
        module
        for path in MODULES
        if not (module := path.relative_to(PACKAGE).as_posix()).startswith(outside)
        and re.search(r"\bjson\.loads?\(|\.json\(\)", text_of(path))
    }

    assert parsing == OWN_JSON


def test_an_init_holds_one_docstring() -> None:
    packages = [path for path in MODULES if path.name == "__init__.py"]

    assert packages
    for path in packages:
        assert len(tree(path).body) == 1, name(path)
        assert ast.get_docstring(tree(path)), name(path)


def test_each_exception_from_a_lint_rule_has_a_code_and_a_reason() -> None:
    bare = [
        f"{name(path)}: {match.group()}"
        for path in ALL
        if path != Path(__file__)
        for match in NOQA.finditer(text_of(path))
        if not match["codes"] or len(match["reason"].strip(" #().—-")) < len("reason")
    ]

    assert bare == []


def test_each_module_has_tests_that_one_finds_by_its_name() -> None:
    """Or by its row in `tested_with.toml`, which has no row too many."""
    tests = {path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    names = {path.stem for path in tests if "apps" not in path.parts}
    rows = tomllib.loads((ROOT / "tests" / "unit" / "tested_with.toml").read_text(encoding="utf-8"))
    modules = {path.relative_to(PACKAGE) for path in MODULES if path.name != "__init__.py"}

    def is_found(module: Path) -> bool:
        if "apps" in module.parts[:-1]:
            # The modules of an app are tested in the folder of the app.
            return any(test.parent == Path("unit", module.parent) for test in tests)
        words = module.stem.strip("_").split("_")
        folder = Path("unit", module.parent)
        starts = ("_".join(words[:count]) for count in range(1, len(words) + 1))
        return f"test_{module.stem.strip('_')}" in names or any(
            folder / f"test_{start}{plural}.py" in tests for start in starts for plural in ("", "s")
        )

    assert sorted({path.as_posix() for path in modules if not is_found(path)} ^ rows.keys()) == []
    assert [test for test in rows.values() if Path(test) not in tests] == []


def apps() -> list[Path]:
    """List the packages of the apps."""
    return sorted(path.parent for path in (PACKAGE / "apps").glob("*/__init__.py"))


def test_apps_know_no_mcp() -> None:
    assert apps()
    assert [name(path) for app in apps() for path in app.glob("*.py") if below(imported(path), "mcp")] == []


def test_the_list_of_apps_is_what_the_folder_holds() -> None:
    assert {app.name for app in apps()} == set(NAMES)
    assert [app.name for app in APPS] == list(NAMES)


def test_a_declaration_imports_nothing_of_its_app() -> None:
    found = {one for app in apps() for one in imported(app / "app.py")}

    assert {one for one in found if not below(iter([one]), "nextcloud_mcp_server.declarations.app")} == set()


#: The modules outside an app that name its tools or scopes: sentences that lead to it, what several apps share,
#: examples, and the demo.
NAMED_IN = {
    "notes": """
        apps/research auth/token_scopes.py demo settings/checks.py settings/multi_user.py tools/connection.py
        tools/toolset.py
        """,
    "files": """
        apps/collectives apps/cookbook apps/notes apps/research apps/tags_and_comments apps/upload apps/versions demo
        nextcloud/byte_range.py nextcloud/file_errors.py nextcloud/files.py nextcloud/trash.py
        tools/documents.py tools/file_results.py tools/note_pictures.py
        """,
    "tags_and_comments": "nextcloud/tags.py",
    "calendar": "nextcloud/caldav.py nextcloud/calendar_errors.py",
    "tasks": "nextcloud/caldav.py nextcloud/calendar_errors.py",
    "contacts": "nextcloud/calendar_errors.py",
    "deck": "apps/calendar apps/tasks nextcloud/calendar_errors.py",
}
#: Ordinary words in ChatGPT's connectors.
ORDINARY = {"search", "fetch"}


def test_nothing_but_the_package_of_an_app_its_sandbox_and_the_list_names_what_it_declares() -> None:
    """So that an app is added, or taken out, in one place."""
    naming = {
        (name, path.relative_to(PACKAGE))
        for name, app in zip(NAMES, APPS, strict=True)
        for path in MODULES
        if not {"apps", name} <= {*path.parts, path.stem}
        for word in {*app.actions, *(scope.name for scope in app.scopes)} - ORDINARY
        if word in text_of(path)
    }
    allowed = {(app, Path(place)) for app, places in NAMED_IN.items() for place in places.split()}

    assert [
        one
        for one in sorted(naming)
        if not {(one[0], place) for place in (one[1], *one[1].parents)} & allowed
    ] == []
    assert {(app, place) for app, path in naming for place in (path, *path.parents)} >= allowed


@pytest.mark.parametrize("root", [errors.NextcloudMcpError, bridge_errors.BridgeError])
def test_the_drawing_of_the_errors_is_the_tree_of_the_classes(root: type[Exception]) -> None:
    module = errors if root is errors.NextcloudMcpError else bridge_errors
    drawn: list[tuple[int, str]] = []
    for line in (module.__doc__ or "").splitlines():
        found = re.match(r"^    (?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)$", line)
        if found:
            drawn.append((len(found["indent"]) // 4, found["name"]))

    assert drawn == list(_classes(root, 0, module.__name__))


def _classes(cls: type[Exception], depth: int, module: str) -> Iterator[tuple[int, str]]:
    yield depth, cls.__name__
    for child in cls.__subclasses__():
        if child.__module__ == module:
            yield from _classes(child, depth + 1, module)


def test_every_ignored_lint_rule_says_why() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lint = tomllib.loads(text)["tool"]["ruff"]["lint"]
    codes = [*lint["ignore"], *(code for codes in lint["per-file-ignores"].values() for code in codes)]

    unexplained = [code for code in codes if not re.search(rf'"{code}",\s*# \S+', text)]

    assert unexplained == []


def test_whatever_catches_every_exception_says_why() -> None:
    boundaries = {"tools/boundary.py", "web/middleware.py"}
    # The reason is on its line, or on the one below.
    broad = re.compile(r"^ *except (?:Base)?Exception\b[^\n#]*(?P<reason>\n? *#.*)?$", re.MULTILINE)

    silent = [
        f"{name(path)}: {found[0].strip()}"
        for path in MODULES
        if path.relative_to(PACKAGE).as_posix() not in boundaries
        for found in broad.finditer(text_of(path))
        if found["reason"] is None
    ]

    assert silent == []


def test_the_folder_of_migrations_does_not_shadow_the_library() -> None:
    assert not (ROOT / "alembic" / "__init__.py").exists()
