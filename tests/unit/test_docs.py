"""The documents, as a user follows them who has nothing else."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from nextcloud_mcp_server.auth.scopes import SCOPES, TOOLSET_SCOPES
from nextcloud_mcp_server.bridge.configuration import PREFIX as CLIENT_PREFIX
from nextcloud_mcp_server.cli import app
from nextcloud_mcp_server.settings.earlier_names import EARLIER as EARLIER_VARIABLES
from nextcloud_mcp_server.settings.earlier_names import EARLIER_MODE
from nextcloud_mcp_server.settings.names import PREFIXES, known_variables
from nextcloud_mcp_server.storage.models import metadata
from nextcloud_mcp_server.storage.recognition import VERSION_TABLE
from nextcloud_mcp_server.tools import earlier_names
from nextcloud_mcp_server.tools.registry import CONNECTION, TOOLSETS, load

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def headings(path: Path) -> set[str]:
    """Write the headings as addresses, as code hosts do."""
    found = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_and_picture_leads_to_something_that_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"", text)
    ours = [link for pair in links if not (link := "".join(pair)).startswith(("https:", "http:", "mailto:"))]

    lost = [
        link
        for link in ours
        if not (file := path.parent / link.partition("#")[0] if not link.startswith("#") else path).exists()
        or ("#" in link and link.partition("#")[2] not in headings(file))
    ]

    assert lost == []


def test_every_page_is_in_the_index() -> None:
    folder = ROOT / "docs"
    index = (folder / "README.md").read_text(encoding="utf-8")

    listed = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", index)}
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")} - {"README.md"}

    assert len(pages) > 20
    assert pages - listed == set()


def test_contributors_are_led_to_the_index_and_the_glossary() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

    assert {"docs/README.md", "docs/glossary.md"} <= set(re.findall(r"\]\(([^)\s]+)\)", text))


def test_the_readme_leads_to_the_list_of_all_toolsets_and_names_none_that_is_gone() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| toolset") :]
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.+`) \|", table, flags=re.MULTILINE)))

    assert "docs/tools.md" in text
    assert named
    assert set(named) <= TOOLSETS.keys() - {CONNECTION}


def test_the_readme_installs_from_an_address_before_it_names_make() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    install = text[text.index("## Install") : text.index("## Two commands")]

    first = re.findall(r"^```\n(.+)\n```$", install, flags=re.MULTILINE)[0]
    assert first == "uv tool install git+ADDRESS"
    assert text.index(first) < text.index("make ")
    expected = ("uvx --from git+ADDRESS", "pipx install git+ADDRESS", "python3-venv", "| Windows |")
    assert [part for part in expected if part not in install] == []
    # The bare name is another project on PyPI.
    assert re.findall(r"(?:install|--from) nextcloud-mcp-server\b(?! without)", text) == []


def test_every_command_that_a_document_names_exists() -> None:
    known = get_command(app)
    groups = {name: set(getattr(command, "commands", {})) for name, command in known.commands.items()}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]
    named: set[tuple[str, str]] = set()
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        named |= set(
            re.findall(r"(?<![\w/=])nextcloud-mcp-server (?!nextcloud)([a-z]+)(?: ([a-z]+))?(?!\w)", text)
        )

    assert len(named) > 15
    unknown = [
        (name, following)
        for name, following in sorted(named)
        if name not in groups or (groups[name] and following not in groups[name])
    ]
    assert unknown == []


def table_below(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    rows = re.search(r"^\|(?:.+\n\|)+.*$", text, flags=re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows[0].splitlines()[2:]]


def words(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


def layout() -> Iterator[str]:
    """Yield the packages and the files that the layout draws, below the package."""
    drawing = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    above: list[str] = []
    for line in drawing.partition("nextcloud_mcp_server/\n")[2].partition("\nalembic/")[0].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        if depth < 2 and (entry := re.match(r"[a-z_]+(?:/|\.py)(?=\s)", line.strip())):
            above = [*above[:depth], entry[0]]
            yield "".join(above)


def test_the_layout_draws_every_package_and_every_module_at_the_top() -> None:
    package = ROOT / "nextcloud_mcp_server"
    here = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")} | {
        path.name for path in package.glob("*.py") if not path.name.startswith("__")
    }

    drawn = set(layout())

    assert {entry for entry in drawn if not (package / entry).exists()} == set()
    assert here - drawn == set()


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_the_direction_of_imports_that_a_page_draws_is_the_one_that_is_checked(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(
        one["layers"] for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers"
    )

    (drawn,) = re.findall(r"cli(?: → [a-z]+(?:, [a-z]+)*)+", text)

    # What few modules import, and the messages that all may log, would only make the drawing longer.
    checked = [
        {*re.findall(r"\w+", layer)} - {"__main__", "demo", "logs", "bridge_errors", "error_root"}
        for layer in layers
    ]
    assert [{*step.split(", ")} for step in drawn.split(" → ")] == [names for names in checked if names]


#: Of the example app.
EXAMPLES = {"nc_recipes_get_recipe", "recipes:read", "recipes:write"}


def test_every_tool_scope_and_target_that_a_document_names_is_one() -> None:
    texts = [path.read_text(encoding="utf-8") for path in DOCUMENTS if path.name != "CHANGELOG.md"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    tools = {old.name for name in TOOLSETS for spec in load(name).tools for old in (spec, *spec.old_names)}

    def named(pattern: str) -> set[str]:
        return {found for text in texts for found in re.findall(pattern, text)}

    assert named(r"\bnc_[a-z_]+[a-z]\b") - tools - EXAMPLES - earlier_names.EARLIER.keys() == set()
    assert named(r"`([a-z_]+:(?:read|write))`") - {*SCOPES} - EXAMPLES == set()
    assert named(r"`make ([a-z-]+)") - {*re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE)} == set()


def defined(path: Path) -> set[str]:
    """Return what a module defines: names at its top, and methods, also as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        found |= {
            name.id
            for name in ast.walk(node)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
            methods = {
                part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            found |= methods | {f"{node.name}.{method}" for method in methods}
    return found


@pytest.mark.parametrize("row", table_below("architecture.md", "## Where to look"), ids=lambda row: row[0])
def test_where_to_look_there_is_what_is_looked_for(row: list[str]) -> None:
    _, code, tests = row
    package = ROOT / "nextcloud_mcp_server"
    modules = [word for word in words(code) if "/" in word]
    names = [word for word in words(code) if re.fullmatch(r"[\w.]+", word)]
    files = [path for word in modules for path in package.glob(word.replace("<name>", "*"))]

    assert [word for word in modules if not [*package.glob(word.replace("<name>", "*"))]] == []
    known = set[str]().union(*(defined(path) for path in files if path.suffix == ".py"))
    assert [name for name in names if name not in known] == []
    folder = ROOT
    for word in words(tests):
        path = ROOT / word if word.startswith("tests/") else folder / word
        assert path.exists(), word
        folder = path.parent


def test_the_page_of_identity_providers_lists_every_scope_by_its_toolset() -> None:
    listed = {toolset: words(scopes) for names, scopes in table_below("identity-providers.md", "## The scopes")
              for toolset in words(names)}  # fmt: skip

    assert listed == TOOLSET_SCOPES
    text = (ROOT / "docs" / "identity-providers.md").read_text(encoding="utf-8")
    assert f"these are {len(SCOPES)};" in text


def test_the_page_of_the_database_lists_every_table_and_no_other() -> None:
    text = (ROOT / "docs" / "storage-schema.md").read_text(encoding="utf-8")
    kept = table_below("storage-schema.md", "## How long rows stay")
    listed = re.findall(r"^\| `(\w+)` \|", text.partition("## How long rows stay")[0], flags=re.MULTILINE)

    assert sorted(listed) == sorted([*metadata.tables, VERSION_TABLE])
    assert {table for names, _ in kept for table in words(names)} <= metadata.tables.keys()


def test_the_image_runs_as_an_account_of_its_own_and_its_health_is_that_of_its_parts() -> None:
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "operate" / "install.md").read_text(encoding="utf-8")

    (account,) = re.findall(r"^USER (\w+)$", image, flags=re.MULTILINE)
    (number,) = re.findall(r"useradd .*--uid (\d+) (\w+)", image)
    assert number == ("10001", account)
    assert f"`{account}` ({number[0]})" in page
    assert "+ '/readyz'" in image


#: Variables of other programs, and forms of a name, that documents mention.
OTHERS = {"NEXTCLOUD_URL", "NEXTCLOUD_ADMIN_USER", "NEXTCLOUD_ADMIN_PASSWORD_FILE"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_variable_that_a_document_names_is_one(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w$])(?:" + "|".join(PREFIXES) + r")[A-Z_]*[A-Z]\b", text))

    others = {name for name in named if name.startswith("NEXTCLOUD_TEST_") or is_read_by_the_client(name)}
    earlier = (
        {*EARLIER_VARIABLES, EARLIER_MODE}
        if path.name in {"migration.md", "0021-connection-tools.md"}
        else set[str]()
    )
    lost = named - OTHERS - others - {*known_variables()} - earlier

    assert lost == set()


def test_the_page_for_those_who_move_here_names_each_variable_of_an_earlier_server() -> None:
    text = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")

    named = re.findall(r"`([A-Z]+(?:_[A-Z…]+)+)", "".join(re.findall(r"(?m)^\| (`[^|]*) \|", text)))
    assert {*named} == {*EARLIER_VARIABLES, EARLIER_MODE}


def is_read_by_the_client(name: str) -> bool:
    """Say whether the client of other servers reads a variable; its code may have the name without the prefix."""
    code = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "nextcloud_mcp_server" / "bridge").rglob("*.py")
    )
    short = name.removeprefix(CLIENT_PREFIX)
    return name != short and bool(re.search(rf'["}}]{short}"|"{name}"', code))
