"""Tools of earlier servers: a call learns the name of today."""

from pathlib import Path

import pytest

from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.tools.earlier_names import EARLIER, sentence
from nextcloud_mcp_server.tools.registry import TOOLSETS, load
from tests.auth_fixtures import NEXTCLOUD

EVERY = [spec for name in TOOLSETS for spec in load(name).tools]
TODAY = {spec.name for spec in EVERY}


def test_each_earlier_name_leads_to_a_tool_of_today_and_is_none_itself() -> None:
    names = {name for spec in EVERY for name in (spec.name, *spec.aliases)}

    assert set(EARLIER.values()) <= TODAY
    assert not EARLIER.keys() & names


@pytest.mark.parametrize("name", EARLIER)
def test_a_call_of_an_earlier_name_is_told_the_name_of_today(name: str) -> None:
    told = sentence(name, TODAY)

    assert (
        told
        == f"Unknown tool: {name}. This server calls it {EARLIER[name]}; see tools/list for its arguments."
    )


def test_a_tool_that_the_settings_leave_out_is_named_as_such() -> None:
    assert sentence("nc_webdav_read_file", {"nc_notes_get_note"}) == (
        "Unknown tool: nc_webdav_read_file. This server calls it nc_files_read_file, which is not enabled here."
    )


def test_any_other_name_is_no_earlier_one() -> None:
    assert sentence("nc_files_read_file", TODAY) is None
    assert sentence("nothing", TODAY) is None


@pytest.mark.parametrize("kept", [True, False])
def test_the_operator_can_switch_the_old_names_off(tmp_path: Path, *, kept: bool) -> None:
    settings = environment.load(
        nextcloud_host=NEXTCLOUD, data_dir=tmp_path, toolsets="all", old_tool_names=kept
    )

    specs = mcp_server.selected(settings)

    names = {old.name for spec in specs for old in spec.old_names}
    assert ({"provision_nextcloud_access", "check_logged_in", "nc_deck_list_boards"} <= names) is kept
    assert bool(names) is kept
    assert {spec.name for spec in specs} == {
        spec.name
        for spec in mcp_server.select(settings.enabled_toolsets, exclude=(), read_only=False, local=False)
    }
