"""The files that start containers, held to the settings and to the pages that go through them."""

import re
from pathlib import Path

import pytest

from nextcloud_mcp_server.settings.names import known_variables

ROOT = Path(__file__).parents[2]
FILES = sorted(path.name for path in ROOT.glob("docker-compose*.yml"))


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_what_a_file_wants_to_be_told_is_a_setting(name: str) -> None:
    asked = set(re.findall(r"(?<!\$)\$\{(\w+)", text_of(name)))

    assert asked
    assert asked <= set(known_variables())


@pytest.mark.parametrize("name", FILES)
def test_what_a_file_tells_our_server_is_a_setting(name: str) -> None:
    theirs = ("POSTGRES_", "NEXTCLOUD_ADMIN_", "OVERWRITE")
    told = set(re.findall(r"^ +([A-Z][A-Z0-9_]+): ", text_of(name), flags=re.MULTILINE))

    ours = {variable for variable in told if not variable.startswith(theirs)}

    assert ours
    assert ours <= {*known_variables(), *(f"{variable}_FILE" for variable in known_variables())}


def test_every_secret_of_the_whole_cloud_is_made_on_its_page() -> None:
    secrets = re.findall(r"file: (secrets/\S+)", text_of("docker-compose.builtin.yml"))
    page = text_of("docs/quickstart-builtin.md")

    assert len(secrets) == 4
    assert [secret for secret in secrets if f" > {secret}\n" not in page] == []


def test_the_whole_cloud_takes_four_steps() -> None:
    steps = re.findall(r"^## (\d)\. ", text_of("docs/quickstart-builtin.md"), flags=re.MULTILINE)

    assert steps == ["1", "2", "3", "4"]
