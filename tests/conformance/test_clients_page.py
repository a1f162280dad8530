"""What docs/clients.md says of the clients that were run is what the tests run."""

import json
import re

import pytest

from tests.conformance.client_install import FOREIGN
from tests.conformance.terminal_assistants import ASSISTANTS
from tests.conformance.third_party_clients import CLIENTS, Foreign
from tests.integration.stdio_app import ROOT

OVER = {"http": "HTTP", "stdio": "stdio"}
ASKED_IN = {"held": "a page", "error": "-32042", "text": "text"}


def rows(heading: str) -> list[list[str]]:
    """Read the table that begins so: its cells, without the marks around names of packages."""
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    table = page.partition(f"\n| {heading} | package |")[2].partition("\n\n")[0]
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def pinned(client: Foreign) -> str | None:
    """Find the version that is installed: in the requirements of its environment, or in package.json."""
    if client.requirements is not None:
        pins = (FOREIGN / "requirements" / f"{client.requirements}.txt").read_text(encoding="utf-8")
        found = re.search(rf"^{re.escape(client.package)}(?:\[\w+\])?==(\S+)", pins, re.MULTILINE)
        return found and found[1]
    for folder in (FOREIGN, ROOT / "tests"):
        package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
        wanted = package.get("dependencies", {}) | package.get("devDependencies", {})
        if client.package in wanted:
            return wanted[client.package]
    return None


def test_the_page_names_each_client_as_it_is_run() -> None:
    run = [
        [
            client.name,
            client.package,
            client.version,
            ", ".join(OVER[one] for one in client.transports),
            ASKED_IN[client.way],
        ]
        for client in CLIENTS
    ]

    assert sorted(row[:5] for row in rows("client")) == sorted(run)


def test_the_page_names_each_assistant_as_it_is_run() -> None:
    run = [[one.name, one.package, one.version] for one in ASSISTANTS]
    package = json.loads((FOREIGN / "assistants" / "package.json").read_text(encoding="utf-8"))

    assert sorted(row[:3] for row in rows("assistant")) == sorted(run)
    assert package["dependencies"] == {one.package: one.version for one in ASSISTANTS}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.package)
def test_the_version_that_is_named_is_the_one_that_is_installed(client: Foreign) -> None:
    assert pinned(client) == client.version


def test_the_page_names_the_version_of_the_official_suite() -> None:
    package = json.loads((ROOT / "tests" / "package.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")

    assert (
        f"`@modelcontextprotocol/conformance` {package['devDependencies']['@modelcontextprotocol/conformance']}"
        in " ".join(page.split())
    )
