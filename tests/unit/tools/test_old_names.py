"""Tools that one tool replaced are called by their old names as before, and are listed no more."""

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools.registry import TOOLSETS, load
from nextcloud_mcp_server.tools.toolset import ToolSpec
from tests.dav_fakes import account_in, call

EVERY: list[ToolSpec] = [spec for name in TOOLSETS for spec in load(name).tools]


def test_no_old_name_is_that_of_a_tool() -> None:
    names = [name for spec in EVERY for name in (spec.name, *spec.aliases)]

    assert len(set(names)) == len(names)


def test_an_old_name_says_and_requires_what_its_tool_does() -> None:
    for spec in EVERY:
        for old in spec.old_names:
            assert (old.schema, old.scopes, old.read_only) == (spec.schema, spec.scopes, spec.read_only)
            assert old.preset.keys() <= spec.schema["properties"].keys()


@pytest.mark.parametrize(
    ("old", "new", "arguments", "rows"),
    [
        ("nc_deck_list_boards", "nc_deck_get_board", {}, "boards"),
        ("nc_tables_list_tables", "nc_tables_get_table", {}, "tables"),
        ("nc_forms_list_forms", "nc_forms_get_form", {}, "forms"),
        ("nc_news_list_feeds", "nc_news_read_articles", {"feeds": True}, "feeds"),
    ],
)
async def test_a_list_is_the_same_under_both_names(
    old: str, new: str, arguments: dict[str, bool], rows: str
) -> None:
    alice = account_in(Sandbox.demo())

    before, now = await call(alice, old), await call(alice, new, **arguments)

    assert before == now
    assert getattr(now, rows)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("nc_deck_get_board", {"query": "box"}, "send board_id, too"),
        ("nc_deck_get_board", {"archived": True}, "send board_id, too"),
        ("nc_tables_get_table", {"query": "box"}, "send table_id, too"),
        ("nc_tables_get_table", {"where": {"Item": "box"}}, "send table_id, too"),
        ("nc_tables_get_table", {"row_id": 1}, "send table_id, too"),
        ("nc_news_read_articles", {"feeds": True, "unread": True}, "Send 'feeds' alone"),
        ("nc_news_read_articles", {"feeds": True, "article_id": 1}, "Send 'feeds' alone"),
    ],
)
async def test_what_belongs_to_the_parts_of_one_is_not_taken_for_a_list(
    tool: str, arguments: dict[str, object], words: str
) -> None:
    alice = account_in(Sandbox.demo())

    with pytest.raises(errors.InvalidInput, match=words):
        await call(alice, tool, **arguments)
