"""The form of tools that the makers of models all take; one that has another fails a whole request.

- OpenAI: an object at the top, no unions there; names `^[a-zA-Z0-9_-]{1,64}$` (Function calling, Structured Outputs);
  descriptions of at most 1,024 characters.
- Anthropic: "input_schema does not support oneOf, allOf, or anyOf at the top level"; names `^[a-zA-Z0-9_-]{1,64}$`,
  with the client's `mcp__server__` before them (Tool use).
- Gemini: the fields of `Schema`, a subset of OpenAPI 3.0: one type, no references, enums of texts, items in lists;
  names of functions begin with a letter, and those of parameters have letters, digits and `_` (FunctionDeclaration).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean"})
#: In all three lists. `additionalProperties` is in Gemini's `parametersJsonSchema`, and adapters to its older
#: `parameters` remove it.
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
#: Clients put their own prefix and the server's name before a tool's, as in `mcp__nextcloud__`.
ROOM_FOR_A_PREFIX = 20
DEEPEST = 5
LONGEST_DESCRIPTION = 1_024
LONGEST_TITLE = 60


def wrong_tool(tool: Mapping[str, Any]) -> list[str]:
    """List what one of the three would refuse about a tool in `tools/list`."""
    found = wrong(str(tool.get("name")), cast("dict[str, Any]", tool.get("inputSchema", {})))
    if not 0 < len(str(tool.get("description", ""))) <= LONGEST_DESCRIPTION:
        found.append("the description's length")
    if not 0 < len(str(tool.get("title", ""))) <= LONGEST_TITLE:
        found.append("the title's length")
    if _has_null({key: value for key, value in tool.items() if key != "outputSchema"}):
        found.append("a null member")
    output = tool.get("outputSchema", {"type": "object"})
    if not isinstance(output, dict) or cast("dict[str, Any]", output).get("type") != "object":
        found.append("a result that is no object")
    return found


def _has_null(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, cast("dict[str, object]", value).values()))
    if isinstance(value, list):
        return any(map(_has_null, cast("list[object]", value)))
    return value is None


def wrong(name: str, schema: dict[str, Any]) -> list[str]:
    """List what one of the three would refuse about a name and a schema of arguments."""
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


def _wrong_in(value: object, where: str, depth: int) -> Iterator[str]:
    if not isinstance(value, dict):
        # JSON Schema also has true and false.
        yield f"{where}: no schema"
        return
    schema = cast("dict[str, Any]", value)
    if unknown := schema.keys() - KEYWORDS:
        yield f"{where}: the keywords {sorted(unknown)}"
    if _has_null({key: one for key, one in schema.items() if key != "properties"}):
        yield f"{where}: null"
    if not isinstance(schema.get("description", ""), str) or "" in (
        schema.get("description"),
        schema.get("title"),
    ):
        yield f"{where}: an empty description"
    if depth > DEEPEST:
        yield f"{where}: too deep"
    yield from _wrong_type(schema, where)
    properties = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
    required = cast("list[str]", schema.get("required") or [])
    if not set(required) <= set(properties) or len(set(required)) < len(required):
        yield f"{where}: requires what it does not have, or twice"
    for name, one in properties.items():
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", name):
            yield f"{where}: the name {name}"
        yield from _wrong_in(one, f"{where}.{name}", depth + 1)
    inside = [schema["items"]] if "items" in schema else []
    for number, one in enumerate([*inside, *schema.get("anyOf", ())]):
        yield from _wrong_in(one, f"{where}[{number}]", depth + 1)


def _wrong_type(schema: dict[str, Any], where: str) -> Iterator[str]:
    kind = schema.get("type")
    if "anyOf" in schema:
        if kind is not None or not schema["anyOf"]:
            yield f"{where}: a type beside a choice, or no choice"
        return
    if not isinstance(kind, str) or kind not in TYPES:
        yield f"{where}: the type {kind}"
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield f"{where}: a list of anything"
    if "enum" in schema and (
        not schema["enum"]
        or kind != "string"
        or not all(isinstance(one, str) and one for one in schema["enum"])
    ):
        yield f"{where}: an enum of other than texts"
