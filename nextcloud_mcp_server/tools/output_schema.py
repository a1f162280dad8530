"""The output schema of a tool (`OUTPUT_SCHEMAS=true`), which each of its results meets."""

from typing import Any, cast

from pydantic import TypeAdapter

Schema = dict[str, Any]


def of(result_type: Any) -> Schema:  # noqa: ANN401 - a model, or a union of them
    """Return the output schema for the return type of a tool.

    Results omit None, so fields that may be None cannot be required. MCP requires an object at the top, which the
    schema of a union does not declare itself.
    """
    schema = TypeAdapter[Any](result_type).json_schema(mode="serialization")
    definitions = cast("dict[str, Schema]", schema.get("$defs", {}))
    for one in (schema, *definitions.values()):
        if "required" in one:
            one["required"] = [
                name for name in one["required"] if not _may_be_null(one["properties"][name], definitions)
            ]
            if not one["required"]:
                del one["required"]
    return {"type": "object", **schema}


def _may_be_null(schema: Schema, definitions: dict[str, Schema]) -> bool:
    """Tell whether None is among the allowed values."""
    if "$ref" in schema:
        return _may_be_null(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    # Neither a type nor a choice: any value is allowed.
    kinds = [schema.get("type", "null" if not schema.keys() & {"anyOf", "oneOf", "const", "enum"} else "")]
    return "null" in kinds or any(_may_be_null(one, definitions) for one in schema.get("anyOf", ()))
