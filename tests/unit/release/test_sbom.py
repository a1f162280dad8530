"""The list of parts of a release: every package of the lock, in the form that CycloneDX publishes."""

import re
from importlib.metadata import requires

import pytest

from release import facts
from release.bundle import pins_of
from release.sbom import LOCK, parts_of, sbom
from tests.published_schemas import broken_rules_of_sbom

FACTS = facts.read("Example/nextcloud-mcp-server")


def test_the_document_is_what_the_schema_of_cyclonedx_says() -> None:
    assert broken_rules_of_sbom(sbom(FACTS)) == []


def test_the_schema_finds_a_fault() -> None:
    document = sbom(FACTS)
    document["components"][0]["type"] = "package"

    assert len(broken_rules_of_sbom(document)) == 1


def test_it_has_every_package_of_the_lock_with_the_hashes_of_its_files() -> None:
    text = (facts.ROOT / LOCK).read_text(encoding="utf-8")

    components = sbom(FACTS)["components"]

    pins = [pin.partition(" ;")[0] for pin in pins_of(LOCK)]
    assert [f"{one['name']}=={one['version']}" for one in components] == pins
    hashes = [each["content"] for one in components for each in one["externalReferences"][0]["hashes"]]
    assert hashes == re.findall(r"sha256:(\w{64})", text)


def test_it_says_what_needs_what() -> None:
    document = sbom(FACTS)

    needs = {one["ref"].partition("@")[0]: one["dependsOn"] for one in document["dependencies"]}
    direct = {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in needs[f"pkg:pypi/{FACTS.name}"]}
    declared = {
        re.split(r"[\[<>=;! ]", each)[0].lower()
        for each in requires(FACTS.name) or ()
        if "keyring" not in each
    }
    assert direct == declared
    # Each but the program itself is needed by another one.
    assert {ref for refs in needs.values() for ref in refs} == {one["purl"] for one in document["components"]}


def test_it_is_the_same_document_each_time_and_names_licences() -> None:
    document = sbom(FACTS)

    licences = {one["name"]: one["licenses"] for one in document["components"] if "licenses" in one}
    assert sbom(FACTS) == document
    assert len(licences) > len(document["components"]) * 0.7
    assert licences["sqlalchemy"]


@pytest.mark.parametrize(
    ("via", "needed_by"),
    [
        ("    # via mcp\n", ("mcp",)),
        (
            "    # via\n    #   -c requirements.lock\n    #   a.b-c (pyproject.toml)\n    #   mcp\n",
            ("a.b-c", "mcp"),
        ),
    ],
)
def test_a_package_says_by_what_it_is_needed(via: str, needed_by: tuple[str, ...]) -> None:
    lock = f"x-y==1.0 ; sys_platform == 'win32' \\\n    --hash=sha256:{'a' * 64}\n{via}"

    (part,) = parts_of(lock)

    assert (part.name, part.version, part.condition) == ("x-y", "1.0", "sys_platform == 'win32'")
    assert part.needed_by == needed_by
    assert part.hashes == ("a" * 64,)
