"""Icons are small drawings that any client can show without asking another host."""

from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest

from nextcloud_mcp_server.protocol import icons


@pytest.mark.parametrize("toolset", ["connection", "notes", "files", "calendar", "contacts", "deck"])
def test_an_icon_is_a_whole_drawing_without_scripts_or_links(toolset: str) -> None:
    drawn = icons.of(toolset)

    assert [icon.theme for icon in drawn] == ["light", "dark"]
    for icon in drawn:
        kind, _, svg = icon.src.partition(",")
        assert kind == "data:image/svg+xml"
        assert icon.mime_type == "image/svg+xml"
        root = ET.fromstring(unquote(svg))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert [child.tag for child in root] == ["{http://www.w3.org/2000/svg}path"]
        assert len(icon.src) < 320
    assert len({icon.src for icon in drawn}) == 2


def test_a_toolset_without_a_drawing_has_that_of_the_server() -> None:
    assert icons.of("deck") == icons.of("connection")
    assert icons.of("notes") != icons.of("connection")
