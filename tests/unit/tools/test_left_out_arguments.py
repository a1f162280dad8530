"""In an optional argument null counts as leaving it out, and so does "" unless it is declared to say something.

Several frameworks fill in "" for what a model leaves out. The strict mode of OpenAI requires every argument and has
the model send null for what it leaves out (Structured Outputs, "all fields must be required").
"""

from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.process import Extract
from nextcloud_mcp_server.errors import InvalidInput, NextcloudMcpError
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.registry import TOOLSETS, load
from nextcloud_mcp_server.tools.toolset import ToolSpec
from tests.dav_fakes import call_with
from tests.every_tool import SPECS, tampered, usual

EVERY: dict[str, ToolSpec] = {spec.name: spec for name in TOOLSETS for spec in load(name).tools}
#: A value for each type that the schemas have; which one does not matter.
_VALUES: dict[str, object] = {
    "string": "1",
    "integer": 5,
    "boolean": True,
    "array": ["1"],
    "object": {"Item": "x"},
}


def properties_of(spec: ToolSpec) -> dict[str, dict[str, Any]]:
    return spec.arguments.schema["properties"]


def required_of(spec: ToolSpec) -> dict[str, object]:
    """Give a value for each required argument, as its schema wants it."""
    names = spec.arguments.schema.get("required", [])
    return {name: _VALUES[str(properties_of(spec)[name].get("type", "string"))] for name in names}


def optional_of(spec: ToolSpec) -> list[str]:
    return sorted(set(properties_of(spec)) - set(spec.arguments.schema.get("required", [])))


def test_a_tool_can_be_called_with_null_for_all_that_is_optional() -> None:
    for spec in EVERY.values():
        needed = required_of(spec)

        checked = spec.arguments.validate(needed | dict.fromkeys(optional_of(spec)))

        assert checked == spec.arguments.validate(needed)


def test_a_tool_can_be_called_with_nothing_in_all_that_is_optional() -> None:
    for spec in EVERY.values():
        needed = required_of(spec)
        empty = [name for name in optional_of(spec) if name not in spec.arguments.meaningful_when_empty]

        checked = spec.arguments.validate(needed | dict.fromkeys(empty, ""))

        assert checked == spec.arguments.validate(needed)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_leaving_out_null_and_nothing_are_one_in_every_mixture(data: st.DataObject) -> None:
    spec = EVERY[data.draw(st.sampled_from(sorted(EVERY)))]
    needed, silent = required_of(spec), spec.arguments.meaningful_when_empty
    mixture = {
        name: said
        for name in optional_of(spec)
        if (said := data.draw(st.sampled_from(["absent", None, *([] if name in silent else [""])])))
        != "absent"
    }

    checked = spec.arguments.validate(needed | mixture)

    assert checked == spec.arguments.validate(needed)


@pytest.mark.parametrize(
    "tool", [name for name, spec in EVERY.items() if spec.arguments.meaningful_when_empty]
)
def test_nothing_is_kept_where_it_says_something(tool: str) -> None:
    spec = EVERY[tool]

    for name, means in spec.arguments.meaningful_when_empty.items():
        assert spec.arguments.validate(required_of(spec) | {name: ""})[name] == ""
        assert means
        assert name in optional_of(spec)
        assert properties_of(spec)[name]["type"] == "string"


def test_what_a_description_says_of_nothing_is_declared() -> None:
    for spec in EVERY.values():
        said = {name for name, one in properties_of(spec).items() if '""' in one.get("description", "")}

        assert said <= set(spec.arguments.meaningful_when_empty)


def test_null_is_refused_where_something_is_needed() -> None:
    for spec in EVERY.values():
        for name in required_of(spec):
            with pytest.raises(InvalidInput, match=f"'{name}' must be"):
                spec.arguments.validate(required_of(spec) | {name: None})


def test_an_unknown_argument_is_refused_even_if_it_says_nothing() -> None:
    for said in (None, ""):
        with pytest.raises(InvalidInput, match="'nope' is not an argument of this tool"):
            EVERY["nc_notes_list_notes"].arguments.validate({"nope": said})


async def text_of(
    kind: Kind, pieces: AsyncIterable[bytes], *, report: Callable[[int, int], Awaitable[None]]
) -> Extract:
    return Extract(b"".join([piece async for piece in pieces]), "ok")


@pytest.fixture(scope="module")
async def reader() -> Account:
    return tampered(Sandbox.demo())[1]


@pytest.fixture(scope="module")
async def every(reader: Account) -> dict[str, dict[str, Any]]:
    return await usual(reader)


@pytest.mark.parametrize("tool", [name for name, spec in SPECS.items() if spec.read_only])
async def test_a_reading_answers_the_same_whatever_stands_for_what_is_left_out(
    tool: str, reader: Account, every: dict[str, dict[str, Any]]
) -> None:
    spec, usually = SPECS[tool], every[tool]
    others = [name for name in optional_of(spec) if name not in usually]
    empty = [name for name in others if name not in spec.arguments.meaningful_when_empty]

    async def told(arguments: dict[str, Any]) -> object:
        try:
            extras = {"documents": Documents(text_of)}
            return (await call_with(extras, load(spec.toolset), reader, tool, **arguments)).model_dump()
        except NextcloudMcpError as error:
            return str(error)

    plain = await told(usually)

    assert await told(usually | dict.fromkeys(others)) == plain
    assert await told(usually | dict.fromkeys(empty, "")) == plain
