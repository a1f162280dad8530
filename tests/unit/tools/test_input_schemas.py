"""The schemas of arguments have only what the makers of models all take: one that does not fails a whole request.

- OpenAI: an object at the top, no unions there; names `^[a-zA-Z0-9_-]{1,64}$` (Function calling, Structured Outputs).
- Anthropic: "input_schema does not support oneOf, allOf, or anyOf at the top level"; names `^[a-zA-Z0-9_-]{1,64}$`,
  with the client's `mcp__server__` before them (Tool use).
- Gemini: the fields of `Schema`, a subset of OpenAPI 3.0: one type, no references, enums of texts, items in lists;
  names of functions begin with a letter, and those of parameters have letters, digits and `_` (FunctionDeclaration).
"""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import pytest

from nextcloud_mcp_server.tools.toolset import ToolSpec
from nextcloud_mcp_server.toolsets import TOOLSETS, load

EVERY: dict[str, ToolSpec] = {spec.name: spec for name in TOOLSETS for spec in load(name).tools}
TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean"})
#: Common to the three lists. `additionalProperties` is in Gemini's `parametersJsonSchema`, and adapters to its older
#: `parameters` leave it out.
KEYWORDS = frozenset(
    {
        "type",
        "description",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "enum",
        "default",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
    }
)
#: Clients put their own word and the server's name before a tool's, as in `mcp__nextcloud__`.
ROOM_FOR_A_PREFIX = 20
DEEPEST = 5


def wrong(name: str, schema: dict[str, Any]) -> list[str]:
    """Say what of a tool one of the three would refuse."""
    found: list[str] = []
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_-]*", name) or len(name) + ROOM_FOR_A_PREFIX > 64:
        found.append(f"the name {name}")
    if (
        schema.get("type") != "object"
        or "properties" not in schema
        or schema.get("additionalProperties") is not False
    ):
        found.append("no closed object at the top")
    if "anyOf" in schema or "enum" in schema:
        found.append("a choice at the top")
    return [*found, *_wrong_in(schema, "", 1)]


def _wrong_in(schema: dict[str, Any], where: str, depth: int) -> Iterator[str]:
    if unknown := schema.keys() - KEYWORDS:
        yield f"{where}: the keywords {sorted(unknown)}"
    if None in schema.values() or None in schema.get("enum", ()):
        yield f"{where}: null"
    if depth > DEEPEST:
        yield f"{where}: too deep"
    yield from _wrong_type(schema, where)
    properties = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
    if not set(schema.get("required", ())) <= set(properties):
        yield f"{where}: requires what it does not have"
    for name, one in properties.items():
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", name):
            yield f"{where}: the name {name}"
        yield from _wrong_in(one, f"{where}.{name}", depth + 1)
    inside = [schema["items"]] if isinstance(schema.get("items"), dict) else []
    for number, one in enumerate([*inside, *schema.get("anyOf", ())]):
        yield from _wrong_in(one, f"{where}[{number}]", depth + 1)


def _wrong_type(schema: dict[str, Any], where: str) -> Iterator[str]:
    kind = schema.get("type")
    if "anyOf" in schema:
        if kind is not None:
            yield f"{where}: a type beside a choice"
        return
    if not isinstance(kind, str) or kind not in TYPES:
        yield f"{where}: the type {kind}"
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield f"{where}: a list of anything"
    if "enum" in schema and (
        kind != "string" or not all(isinstance(one, str) and one for one in schema["enum"])
    ):
        yield f"{where}: an enum of other than texts"


def test_every_tool_is_one_that_all_makers_of_models_take() -> None:
    assert {name: found for name, spec in EVERY.items() if (found := wrong(name, spec.schema))} == {}


def test_what_is_printed_of_a_tool_is_small_enough_to_be_read_as_a_whole() -> None:
    for spec in EVERY.values():
        assert len(json.dumps(spec.schema)) < 2_500
        assert len(spec.description) <= 1_024


GOOD: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a"],
    "additionalProperties": False,
}


def having(**properties: object) -> dict[str, Any]:
    return {**GOOD, "properties": {**GOOD["properties"], **properties}}


@pytest.mark.parametrize(
    ("name", "schema"),
    [
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
    ],
)
def test_the_guard_sees_what_one_of_them_would_refuse(name: str, schema: dict[str, Any]) -> None:
    assert wrong("x", GOOD) == []
    assert wrong(name, schema)
