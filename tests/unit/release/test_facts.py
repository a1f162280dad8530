"""One source for what all packages say: it agrees with the image, the project and the settings."""

import re

import pytest

from nextcloud_mcp_server.settings.environment import Settings
from release import facts

FACTS = facts.read("Example/Nextcloud-MCP")


def text_of(name: str) -> str:
    return (facts.ROOT / name).read_text(encoding="utf-8")


def test_names_follow_from_the_repository() -> None:
    assert FACTS.url == "https://github.com/Example/Nextcloud-MCP"
    assert FACTS.image == "ghcr.io/example/nextcloud-mcp"
    assert FACTS.server_name == "io.github.Example/Nextcloud-MCP"


@pytest.mark.parametrize("repository", ["", "name", "owner/", "/name", "a/b/c"])
def test_what_is_no_repository_is_refused(repository: str) -> None:
    with pytest.raises(ValueError, match="OWNER/NAME"):
        facts.read(repository)


def test_the_version_is_that_of_the_project() -> None:
    assert f'\nversion = "{FACTS.version}"\n' in text_of("pyproject.toml")
    assert FACTS.tag == f"v{FACTS.version}"


def test_the_image_has_the_user_the_port_and_the_folders_that_packages_name() -> None:
    dockerfile = text_of("Dockerfile")

    assert f"--uid {facts.USER} server" in dockerfile
    assert re.findall(r"^EXPOSE (\d+)$", dockerfile, re.MULTILINE) == [facts.port()]
    assert {facts.DATA, facts.SECRETS} <= set(re.findall(r" (/\w+)", dockerfile))
    assert facts.port() == str(Settings.model_fields["port"].default)


@pytest.mark.parametrize(
    ("variable", "default"),
    [
        ("NEXTCLOUD_HOST", ""),
        ("READ_ONLY", "false"),
        ("TOOLSETS", "notes,files"),
        ("NEXTCLOUD_MCP_PORT", "8765"),
    ],
)
def test_a_default_is_written_as_its_variable_would_have_it(variable: str, default: str) -> None:
    assert facts.default_of(variable) == default


def test_a_description_is_plain_text() -> None:
    assert "`" not in facts.description_of("NEXTCLOUD_HOST")
