"""Every id is text in what tools answer, and text or an integer in what they take."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.deck.store import DeckStore
from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.registry import TOOLSETS
from nextcloud_mcp_server.tools.toolset import ToolSpec
from tests.dav_fakes import account_in, call

SPECS = mcp_server.select(TOOLSETS, exclude=(), read_only=False)
#: The fields of answers that are numbers. Each is a count, an amount or a place; one more of them is looked at here.
NUMBERS = {
    "answers", "attachments", "available", "columns", "comments", "comments_total", "failed_updates", "files_inside",
    "folders_inside", "maximum", "minimum", "next_offset", "offset", "percent", "priority", "reactions", "remaining",
    "replaced", "rows", "searched", "servings", "size", "starred", "text_size", "total", "unread", "used",
}  # fmt: skip
#: Arguments with ids that are more than digits, or that have a check of their own with a sentence of its own.
NAMES = {"event_id", "task_id", "contact_id", "trash_id", "version_id", "upload_id", "share_id", "id"}
#: An id by another name.
OTHER_NAMES = {"reply_to"}


def numeric(schema: object, name: str = "") -> Iterator[str]:
    """Name the properties of a schema that may hold a number."""
    if isinstance(schema, list):
        for one in cast("list[object]", schema):
            yield from numeric(one, name)
    if isinstance(schema, dict):
        parts = cast("dict[str, Any]", schema)
        if parts.get("type") in ("integer", "number"):
            yield name
        for key, value in cast("dict[str, object]", parts.get("properties", {})).items():
            yield from numeric(value, key)
        for key, value in parts.items():
            if key == "$defs":
                for one in cast("dict[str, object]", value).values():
                    yield from numeric(one)
            elif key != "properties":
                yield from numeric(value, name)


def is_id(name: str) -> bool:
    return name == "id" or name.endswith(("_id", "_ids")) or name in OTHER_NAMES


def given_ids(spec: ToolSpec) -> list[str]:
    return [name for name in spec.schema.get("properties", {}) if is_id(name)]


def test_no_answer_has_an_id_that_is_a_number() -> None:
    found = {
        (spec.name, name)
        for spec in SPECS
        for name in numeric(TypeAdapter[Any](spec.result_type).json_schema(mode="serialization"))
    }

    assert {(tool, name) for tool, name in found if is_id(name)} == set()
    assert {name for _, name in found} == NUMBERS


def refusal(spec: ToolSpec, name: str, value: object) -> str:
    """Say what is refused of a call with this id; other arguments may be missing, too."""
    sent = value if spec.schema["properties"][name]["type"] != "array" else [value]
    others = dict.fromkeys((one for one in given_ids(spec) if one != name), "7")
    with pytest.raises(InvalidInput) as refused:
        spec.arguments.validate(others | {name: sent, "no_such_argument": 1})
    return str(refused.value).partition("This tool takes")[0]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_id_argument_is_text_to_a_client_and_taken_as_a_number_too(spec: ToolSpec) -> None:
    for name in given_ids(spec):
        declared = spec.schema["properties"][name]
        assert declared.get("items", declared)["type"] == "string"
        for value in ("7", 7, 7.0):
            assert f"'{name}" not in refusal(spec, name, value)
        for value in (7.5, True):
            assert f"'{name}" in refusal(spec, name, value)
        if name not in NAMES:
            assert f"'{name}" in refusal(spec, name, "7/../8")
            assert 'must be an id as the tools answer it: digits, such as "7"' in refusal(spec, name, "last")


async def test_an_id_beyond_what_a_double_can_hold_comes_back_as_it_was_given() -> None:
    sandbox = Sandbox.demo()
    alice: Account = account_in(sandbox)
    store = sandbox.state.store(DeckStore)
    large = 2**53 + 1
    [board] = list(store.boards.values())
    store.boards = {large: board}
    board.id = large
    for stack in store.stacks.values():
        stack.board_id = large

    listed = answer.result(await call(alice, "nc_deck_list_boards"))
    [row] = listed.structured_content["boards"]
    shown = await call(alice, "nc_deck_get_board", board_id=row["id"])

    assert row["id"] == str(large)
    assert f'"id":"{large}"' in cast("Any", listed.content[0]).text
    assert shown.cards
