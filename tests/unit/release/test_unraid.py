"""The template, against what Unraid's Docker page writes itself (its wiki, `DockerTemplateSchema`)."""

from xml.etree.ElementTree import Element, fromstring

from nextcloud_mcp_server.settings.names import known_variables
from release import facts
from release.unraid import USER, template

FACTS = facts.read("Example/nextcloud-mcp-server")
ATTRIBUTES = {"Name", "Target", "Default", "Mode", "Description", "Type", "Display", "Required", "Mask"}


def root() -> Element:
    return fromstring(template(FACTS))


def of_type(kind: str) -> dict[str, Element]:
    return {one.attrib["Target"]: one for one in root().iter("Config") if one.attrib["Type"] == kind}


def test_the_template_has_the_elements_that_the_page_reads() -> None:
    document = root()

    assert (document.tag, document.attrib) == ("Container", {"version": "2"})
    assert document.findtext("Repository") == f"ghcr.io/example/nextcloud-mcp-server:{FACTS.version}"
    assert document.findtext("Network") == "bridge"
    assert document.findtext("Privileged") == "false"
    assert {"Name", "Registry", "Shell", "Support", "Project", "Overview", "Category", "ExtraParams"} <= {
        child.tag for child in document
    }


def test_each_entry_has_every_attribute_and_no_other() -> None:
    entries = list(root().iter("Config"))

    assert len(entries) > 8
    for entry in entries:
        assert set(entry.attrib) == ATTRIBUTES
        assert entry.attrib["Type"] in {"Path", "Port", "Variable"}
        assert entry.attrib["Display"] in {"always", "always-hide", "advanced", "advanced-hide"}
        assert {entry.attrib["Required"], entry.attrib["Mask"]} <= {"true", "false"}
        assert (entry.attrib["Mode"] in {"rw", "ro", "tcp"}) == (entry.attrib["Type"] != "Variable")
        assert (entry.text or "") == entry.attrib["Default"]


def test_its_variables_are_settings_and_its_folders_and_port_are_those_of_the_image() -> None:
    variables = of_type("Variable")

    assert set(variables) <= set(known_variables())
    assert {name: entry.text for name, entry in variables.items()}.items() >= facts.MANY_USERS.items()
    assert set(of_type("Path")) == {facts.DATA, facts.SECRETS}
    assert set(of_type("Port")) == {facts.port()}


def test_no_secret_is_typed_into_it_and_its_container_has_no_root() -> None:
    parameters = root().findtext("ExtraParams") or ""

    assert [name for name in of_type("Variable") if name.endswith(("PASSWORD", "SECRET", "KEYS"))] == []
    assert f"--user {USER} " in parameters
    assert not USER.startswith("0:")
    assert {"--read-only", "--cap-drop", "no-new-privileges"} <= set(parameters.split())
