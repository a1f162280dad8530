"""The documents, as a user follows them who has nothing else."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from nextcloud_mcp_server.cli import app
from nextcloud_mcp_server.tools.registry import CONNECTION, TOOLSETS

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
