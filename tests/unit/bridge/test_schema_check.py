"""What a server's schema asks for is checked, and no schema keeps the program busy."""

import time
from typing import Any

import jsonschema
import pytest

from nextcloud_mcp_server.bridge.schema_check import SchemaCheck

HOSTILE = "^(a+)+$"
LONG = "a" * 40 + "!"


def faults(schema: dict[str, Any], value: object) -> list[str]:
    return [error.message for error in SchemaCheck(schema).iter_errors(value)]


CASES: list[tuple[dict[str, Any], object, bool]] = [
    ({"properties": {"a": {"pattern": HOSTILE}}}, {"a": LONG}, False),
    ({"properties": {"a": {"pattern": HOSTILE}}}, {"a": "aaa"}, True),
    ({"items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"pattern": HOSTILE}}}, [LONG], False),
    ({"patternProperties": {HOSTILE: {"type": "string"}}}, {LONG: 1}, True),
    ({"patternProperties": {HOSTILE: {"type": "string"}}}, {"aa": 1}, False),
    ({"patternProperties": {HOSTILE: True}, "additionalProperties": False}, {LONG: 1}, False),
    ({"patternProperties": {HOSTILE: True}, "additionalProperties": False}, {"aa": 1}, True),
    ({"properties": {"b": True}, "additionalProperties": {"type": "string"}}, {"b": 1, "c": 1}, False),
    ({"additionalProperties": False}, {LONG: 1}, False),
    ({"patternProperties": {HOSTILE: True}, "unevaluatedProperties": False}, {LONG: 1}, True),
    ({"unevaluatedProperties": False}, {"x": 1}, False),
    ({"uniqueItems": True}, [{}, {}], False),
    ({"uniqueItems": True}, [{"x": number} for number in range(20_000)], True),
    ({"pattern": "(?=b)"}, "a", True),
    ({"patternProperties": {"(?=b)": {"type": "string"}}, "additionalProperties": False}, {"a": 1}, True),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "pattern": HOSTILE}, LONG, False),
    ({"$ref": "#"}, 1, True),
]


@pytest.mark.parametrize(("schema", "value", "fits"), CASES)
def test_a_value_is_checked_at_once(schema: dict[str, Any], value: object, *, fits: bool) -> None:
    started = time.monotonic()

    assert (faults(schema, value) == []) is fits

    assert time.monotonic() - started < 2


def test_references_that_double_are_not_followed_for_ever() -> None:
    levels = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**levels, "d60": {"type": "integer"}}}
    started = time.monotonic()

    assert faults(schema, 1) == []

    assert time.monotonic() - started < 10


@pytest.mark.parametrize("schema", [{"type": 5}, {"minLength": "x"}, {"$schema": 5, "pattern": 5}])
def test_a_schema_that_is_none_is_told_so(schema: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.SchemaError):
        SchemaCheck(schema)
