"""What tools say of their results with OUTPUT_SCHEMAS=true holds for each of them, as a strict client checks it."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.process import Extract
from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools import answer, output_schema
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.registry import CONNECTION, TOOLSETS, load
from nextcloud_mcp_server.tools.result import Result
from tests.dav_fakes import call_with
from tests.every_tool import SPECS, tampered, usual

RESULT_TYPES = {spec.name: spec.result_type for name in TOOLSETS for spec in load(name).tools}
assert {spec.name for spec in load(CONNECTION).tools} < set(RESULT_TYPES)
#: Readings whose usual arguments name what no one has.
_NOT_THERE = frozenset({"nc_notes_get_attachment"})


async def text_of(
    kind: Kind, pieces: AsyncIterable[bytes], *, report: Callable[[int, int], Awaitable[None]]
) -> Extract:
    return Extract(b"".join([piece async for piece in pieces]), "ok")


async def answered(nc: Account, tool: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the structured part of a result, or nothing where a sentence comes back, which needs none."""
    try:
        extras = {"documents": Documents(text_of)}
        found = answer.result(await call_with(extras, load(SPECS[tool].toolset), nc, tool, **arguments))
    except NextcloudMcpError:
        return []
    assert found.structured_content is not None
    return [found.structured_content]


def assert_meets(value: object, schema: dict[str, Any]) -> None:
    validator: Any = Draft202012Validator(schema)
    validator.validate(value)


def nested(schema: object) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        one = cast("dict[str, Any]", schema)
        yield one
        for item in one.values():
            yield from nested(item)
    elif isinstance(schema, list):
        for item in cast("list[object]", schema):
            yield from nested(item)


@pytest.mark.parametrize("tool", RESULT_TYPES)
def test_a_schema_is_one_of_an_object(tool: str) -> None:
    """N11: clients refuse another `outputSchema`, and with it the whole list of tools."""
    schema = output_schema.of(RESULT_TYPES[tool])

    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    for one in nested(schema):
        if "required" in one and "properties" in one:
            assert set(one["required"]) <= set(one["properties"])


@pytest.fixture(scope="module")
async def reader() -> Account:
    """Alice, who has something in every app; for tools that change nothing."""
    return tampered(Sandbox.demo())[1]


@pytest.fixture(scope="module")
async def newcomer() -> Account:
    """A user who has nothing yet."""
    bare = Sandbox()
    bare.add_user("alice")
    return tampered(bare)[1]


@pytest.fixture(scope="module")
async def every(reader: Account) -> dict[str, dict[str, Any]]:
    """Give arguments for all tools; each demo has the same."""
    return {**await usual(reader), "nc_files_list_folder": {}}


@pytest.mark.parametrize("tool", SPECS)
async def test_what_a_tool_answers_meets_its_schema(
    tool: str, reader: Account, newcomer: Account, every: dict[str, dict[str, Any]]
) -> None:
    """N11: of a user who has things, and of a user who has none."""
    read_only = SPECS[tool].read_only
    alice = reader if read_only else tampered(Sandbox.demo())[1]

    found = [*await answered(alice, tool, every[tool]), *await answered(newcomer, tool, every[tool])]

    for one in found:
        assert_meets(one, output_schema.of(RESULT_TYPES[tool]))
    # Changes with an old etag, and what is not there, come back as a sentence.
    assert found or not read_only or tool in _NOT_THERE


class Leaf(Result):
    name: str | None = None
    anything: Any = None
    count: int


class Other(Result):
    leaf: Leaf | None
    leaves: list[Leaf]
    by_name: dict[str, Leaf | None]


def test_what_may_be_left_out_of_an_answer_is_not_required_at_any_depth() -> None:
    union = output_schema.of(Leaf | Other)

    assert union["type"] == "object"
    assert union["$defs"]["Leaf"]["required"] == ["count"]
    assert union["$defs"]["Other"]["required"] == ["leaves", "by_name"]
    values: tuple[BaseModel, ...] = (
        Leaf(count=1),
        Other(leaf=None, leaves=[Leaf(count=1)], by_name={"x": None}),
    )
    for value in values:
        assert_meets(value.model_dump(mode="json", exclude_none=True), union)
