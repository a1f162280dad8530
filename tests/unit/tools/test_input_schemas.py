"""The schemas of all tools' arguments have only what the makers of models all take (`tests/schema_form.py`)."""

import json
from typing import Any

import pytest

from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.tools.registry import TOOLSETS, load
from nextcloud_mcp_server.tools.toolset import ToolSpec
from tests.schema_form import LONGEST_DESCRIPTION, wrong, wrong_tool

EVERY: dict[str, ToolSpec] = {spec.name: spec for name in TOOLSETS for spec in load(name).tools}


def test_every_tool_is_one_that_all_makers_of_models_take() -> None:
    found = {
        name: wrong(name, spec.schema) + wrong(name, spec.arguments.schema) for name, spec in EVERY.items()
    }

    assert {name: sentences for name, sentences in found.items() if sentences} == {}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("toolsets", [("all",), *[(name,) for name in TOOLSETS]], ids=lambda names: names[0])
def test_no_choice_of_tools_has_others_than_those(
    toolsets: tuple[str, ...], *, read_only: bool, local: bool
) -> None:
    names = TOOLSETS if toolsets == ("all",) else toolsets

    chosen = mcp_server.select(names, exclude=(), read_only=read_only, local=local)

    assert all(EVERY[spec.name] is spec for spec in chosen)
    assert len({spec.name for spec in chosen}) == len(chosen)


def test_what_is_printed_of_a_tool_is_small_enough_to_be_read_as_a_whole() -> None:
    for spec in EVERY.values():
        assert len(json.dumps(spec.schema)) < 2_500
        assert len(spec.description) <= LONGEST_DESCRIPTION


GOOD: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a"],
    "additionalProperties": False,
}


def having(**properties: object) -> dict[str, Any]:
    return {**GOOD, "properties": {**GOOD["properties"], **properties}}


def nested(depth: int) -> dict[str, Any]:
    return {"type": "string"} if depth == 0 else {"type": "array", "items": nested(depth - 1)}


#: One thing each is wrong.
BAD: list[tuple[str, dict[str, Any]]] = [
    ("nc_notes_list_notes_of_a_name_that_is_far_too_long", GOOD),
    ("nc.notes", GOOD),
    ("1_notes", GOOD),
    ("x", {**GOOD, "type": "array"}),
    ("x", {"type": "object", "additionalProperties": False}),
    ("x", {key: value for key, value in GOOD.items() if key != "additionalProperties"}),
    ("x", {**GOOD, "anyOf": [{"required": ["a"]}]}),
    ("x", {**GOOD, "$defs": {}}),
    ("x", {**GOOD, "title": "Arguments"}),
    ("x", {**GOOD, "required": ["c"]}),
    ("x", having(c={"$ref": "#/$defs/C"})),
    ("x", having(c={"type": ["string", "null"]})),
    ("x", having(c={"type": "null"})),
    ("x", having(c={"anyOf": [{"type": "string"}, {"type": "null"}]})),
    ("x", having(c={"type": "string", "default": None})),
    ("x", having(c={"type": "string", "enum": ["a", None]})),
    ("x", having(c={"type": "integer", "enum": [1, 2]})),
    ("x", having(c={"type": "string", "enum": [""]})),
    ("x", having(c={"const": "a"})),
    ("x", having(c={"oneOf": [{"type": "string"}]})),
    ("x", having(c={"type": "array"})),
    ("x", having(c={"type": "array", "items": {"type": "array", "items": {}}})),
    ("x", having(c={"type": "integer", "exclusiveMinimum": 0})),
    ("x", having(c={"type": "string", "format": "date-time"})),
    ("x", having(c={"type": "array", "items": {"type": "string"}, "uniqueItems": True})),
    ("x", having(**{"with-dash": {"type": "string"}})),
    ("x", having(c={})),
    ("", GOOD),
    ("x", {}),
    ("x", {**GOOD, "$id": "x"}),
    ("x", {**GOOD, "$schema": "https://json-schema.org/draft/2020-12/schema"}),
    ("x", {**GOOD, "type": ["object"]}),
    ("x", {**GOOD, "enum": [{}]}),
    ("x", {**GOOD, "required": ["a", "a"]}),
    ("x", {**GOOD, "required": None}),
    ("x", {**GOOD, "additionalProperties": True}),
    ("x", {**GOOD, "description": ""}),
    ("x", having(c=True)),
    ("x", having(c={"allOf": [{"type": "string"}]})),
    ("x", having(c={"not": {"type": "string"}})),
    ("x", having(c={"anyOf": []})),
    ("x", having(c={"anyOf": [{"type": "string"}, True]})),
    ("x", having(c={"type": "string", "anyOf": [{"type": "string"}]})),
    ("x", having(c={"type": "array", "items": {"type": "string"}, "default": [None]})),
    ("x", having(c={"type": "array", "items": [{"type": "string"}]})),
    ("x", having(c={"type": "array", "prefixItems": [{"type": "string"}]})),
    ("x", having(c={"type": "string", "enum": []})),
    ("x", having(c={"type": "string", "pattern": "a"})),
    ("x", having(c={"type": "string", "nullable": True})),
    ("x", having(c={"type": "string", "description": ""})),
    ("x", having(c={"type": "string", "description": ["a"]})),
    ("x", having(c={"type": "object", "properties": {"d": {"type": "null"}}})),
    ("x", having(c={"type": "object", "patternProperties": {}})),
    ("x", having(c={"type": "any"})),
    ("x", having(**{"c" * 65: {"type": "string"}})),
    ("x", having(**{"1c": {"type": "string"}})),
    ("x", having(**{"": {"type": "string"}})),
    ("x", having(c=nested(5))),
]


@pytest.mark.parametrize(("name", "schema"), BAD)
def test_the_guard_sees_what_one_of_them_would_refuse(name: str, schema: dict[str, Any]) -> None:
    assert wrong("x", GOOD) == []
    assert wrong(name, schema)


TOOL: dict[str, Any] = {
    "name": "nc_notes_get_note",
    "title": "Read a note",
    "description": "Read one note.",
    "inputSchema": GOOD,
    "annotations": {"readOnlyHint": True},
    "outputSchema": {"type": "object", "properties": {"a": {"default": None}}},
}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "nc.notes"},
        {"inputSchema": having(c={"type": "null"})},
        {"description": ""},
        {"description": "a" * 1_025},
        {"title": ""},
        {"title": "a" * 61},
        {"title": None},
        {"annotations": {"destructiveHint": None}},
        {"outputSchema": {"anyOf": [{"type": "object"}]}},
        {"outputSchema": None},
        {"outputSchema": {"type": ["object", "null"]}},
    ],
)
def test_the_guard_sees_what_is_wrong_beside_the_arguments(change: dict[str, Any]) -> None:
    assert wrong_tool(TOOL) == []
    assert wrong_tool({**TOOL, **change})
