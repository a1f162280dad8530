"""What registries are told, against the rules that they publish.

The rules are those of `server.schema.json` of 2025-12-11 (static.modelcontextprotocol.io) with the registry's page on
package types, and of `php/containers-schema.json` of nextcloud/all-in-one as of August 2026, in our words: no package
brings these files. The release workflow compares with the files themselves.
"""

import re
from typing import Any

import pytest

from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.settings.names import FROM_FILE, known_variables
from release import facts
from release.catalogues import BUNDLE_FORMAT, all_in_one, bundle_manifest, server_json
from tests.published_schemas import broken_rules_of_bundle, read_yaml

FACTS = facts.read("Example/nextcloud-mcp-server")
SHA256 = "0123456789abcdef" * 4
SECRET = re.compile(r"password|secret|token|key", re.IGNORECASE)


def registry_entry() -> dict[str, Any]:
    return server_json(FACTS, bundle_sha256=SHA256)


def container() -> dict[str, Any]:
    (only,) = all_in_one(FACTS)["aio_services_v1"]
    return only


def package(kind: str) -> dict[str, Any]:
    (only,) = [one for one in registry_entry()["packages"] if one["registryType"] == kind]
    return only


def test_the_registry_is_told_a_name_and_texts_of_the_form_that_it_wants() -> None:
    entry = registry_entry()

    assert re.fullmatch(r"io\.github\.Example/[a-zA-Z0-9._-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100
    assert 1 <= len(entry["title"]) <= 100
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    assert entry["$schema"] == "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
    assert set(entry["repository"]) == {"url", "source"}


def test_the_bundle_is_in_a_release_of_github_with_its_hash() -> None:
    bundle = package("mcpb")

    assert bundle["identifier"] == (
        f"https://github.com/Example/nextcloud-mcp-server/releases/download/v{FACTS.version}/"
        f"nextcloud-mcp-server-{FACTS.version}.mcpb"
    )
    assert re.fullmatch(r"[a-f0-9]{64}", bundle["fileSha256"])
    assert bundle["transport"] == {"type": "stdio"}


def test_the_image_is_named_with_its_tag_and_without_fields_that_the_registry_refuses() -> None:
    image = package("oci")

    assert image["identifier"] == f"ghcr.io/example/nextcloud-mcp-server:{FACTS.version}"
    assert image.keys() & {"version", "registryBaseUrl", "fileSha256"} == set()
    assert [one["value"] for one in image["packageArguments"]] == ["nextcloud-mcp-server", "serve"]
    assert {one["type"] for one in [*image["packageArguments"], *image["runtimeArguments"]]} <= {
        "named",
        "positional",
    }
    assert all(one["format"] in {"string", "boolean"} for one in image["environmentVariables"])


def test_the_registry_would_refuse_our_name_on_pypi_as_it_is_another_project() -> None:
    assert {one["registryType"] for one in registry_entry()["packages"]} == {"mcpb", "oci"}


def test_a_bundle_is_described_as_its_published_schema_says() -> None:
    assert broken_rules_of_bundle(bundle_manifest(FACTS), BUNDLE_FORMAT) == []


def test_a_bundle_with_a_wrong_description_would_be_noticed() -> None:
    wrong = {**bundle_manifest(FACTS), "server": {"type": "uvx"}}

    assert broken_rules_of_bundle(wrong, BUNDLE_FORMAT) != []


def test_nothing_that_a_person_is_asked_for_is_a_secret() -> None:
    asked = bundle_manifest(FACTS)["user_config"]

    assert [name for name, entry in asked.items() if entry.get("sensitive") or SECRET.search(name)] == []
    assert [one for one in package("oci")["environmentVariables"] if one.get("isSecret")] == []
    assert set(asked).isdisjoint(FROM_FILE)


def test_what_a_person_is_asked_for_are_settings_with_their_defaults() -> None:
    asked = bundle_manifest(FACTS)["user_config"]
    variables = package("oci")["environmentVariables"]

    assert set(facts.ASKED) <= set(known_variables())
    assert [name.upper() for name in asked] == [one["name"] for one in variables] == list(facts.ASKED)
    assert asked["toolsets"]["default"] == ",".join(Settings.model_fields["toolsets"].default)
    assert asked["read_only"]["default"] is Settings.model_fields["read_only"].default is False
    assert [name for name, entry in asked.items() if entry["required"]] == ["nextcloud_host"]


#: A field of a container in Nextcloud All-in-One, and what each of its texts must match.
ALL_IN_ONE = {
    "container_name": r"nextcloud-aio-[a-z0-9-]+",
    "display_name": r"[A-Za-z 0-9-]+",
    "documentation": r"https://.*",
    "image": r"(ghcr\.io/)?[a-z0-9/-]+",
    "image_tag": r"[a-z0-9.-]+|%AIO_CHANNEL%",
    "internal_port": r"[0-9]{1,5}|host|%[A-Z_]+%",
    "restart": r"unless-stopped",
    "user": r"[0-9]{1,6}",
    "tmpfs": r"/[a-z/_0-9:-]+",
    "cap_drop": r"[A-Z_]+",
    "environment": r".*=.*",
    "backup_volumes": r"nextcloud_aio_[a-z_]+",
}


@pytest.mark.parametrize(("field", "pattern"), ALL_IN_ONE.items())
def test_nextcloud_all_in_one_is_told_texts_of_the_form_that_it_wants(field: str, pattern: str) -> None:
    value: str | list[str] = container()[field]
    texts = [value] if isinstance(value, str) else value

    assert texts
    assert [text for text in texts if not re.fullmatch(pattern, text)] == []


def test_nextcloud_all_in_one_is_told_nothing_that_it_does_not_know() -> None:
    ours = container()

    assert ours.keys() == ALL_IN_ONE.keys() | {"init", "ports", "read_only", "volumes"}
    assert [set(port) for port in ours["ports"]] == [{"ip_binding", "port_number", "protocol"}]
    for volume in ours["volumes"]:
        assert volume.keys() == {"source", "destination", "writeable"}
        assert re.fullmatch(r"nextcloud_aio_[a-z_]+", volume["source"])
        assert re.fullmatch(r"/[a-z_/.-]+", volume["destination"])


def test_the_container_beside_nextcloud_is_set_up_like_the_compose_file_for_an_existing_one() -> None:
    told = dict(text.partition("=")[::2] for text in container()["environment"])
    service = read_yaml(facts.ROOT / "docker-compose.existing.yml")["services"]["server"]

    assert set(told) <= set(known_variables())
    assert told.items() >= facts.MANY_USERS.items()
    assert service["environment"].items() >= facts.MANY_USERS.items()
    assert {volume["destination"] for volume in container()["volumes"]} == {facts.DATA, facts.SECRETS}
