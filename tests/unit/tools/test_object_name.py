from inspect import signature
from typing import Any, get_args

import pytest

from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.tools.object_name import LONGEST, object_name
from nextcloud_mcp_server.tools.registry import load
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import ToolSpec

NOTES, FILES = ("title", "path"), ("path", "source")


class Read(Result):
    """A note or a file, as a tool returns it."""

    title: str = ""
    path: str | None = None


@pytest.mark.parametrize(
    ("named_by", "arguments", "result", "name"),
    [
        (NOTES, {"note_id": 5}, Read(title="Budget", path="/Notes/x.md"), "Budget"),
        (NOTES, {"note_id": 5, "title": "Milk and eggs"}, Read(title="Milk"), "Milk and eggs"),
        (NOTES, {"note_id": 5, "title": None}, Read(title="A/B"), "A/B"),
        (NOTES, {"note_id": 5}, None, ""),
        (NOTES, {"note_id": 5}, Read(title="  ", path="/Notes/x.md"), "x.md"),
        (FILES, {"path": "/Money/Budget 2026.xlsx"}, None, "Budget 2026.xlsx"),
        (FILES, {"path": "/Money/Bills/"}, None, "Bills"),
        (FILES, {"path": "/"}, Read(path="/"), ""),
        (FILES, {"source": "/a/old.txt", "destination": "/b/new.txt"}, Read(path="/b/new.txt"), "old.txt"),
        (FILES, {"trash_id": "x.d17"}, Read(path="/a/x.txt"), "x.txt"),
        (FILES, {"path": 7}, Read(path=None), ""),
        ((), {"title": "Budget"}, Read(title="Budget"), ""),
        (NOTES, {"title": "a" * 400}, None, "a" * LONGEST),
    ],
)
def test_the_object_is_named_by_the_arguments_or_else_by_the_result(
    named_by: tuple[str, ...], arguments: dict[str, Any], result: object, name: str
) -> None:
    assert object_name(named_by, arguments, result) == name


def fields(spec: ToolSpec) -> set[str]:
    results = get_args(spec.result_type) or (spec.result_type,)
    return {
        *signature(spec.guarded.body).parameters,
        *(name for each in results for name in each.model_fields),
    }


def test_each_declared_field_is_one_of_an_argument_or_a_result() -> None:
    unknown = {
        app.name: left
        for app in APPS
        if (left := set(app.named_by) - {name for spec in load(app.toolset).tools for name in fields(spec)})
    }

    assert unknown == {}


def test_no_tool_that_reads_one_object_leaves_its_name_out() -> None:
    named = {"title", "name", "subject", "path"}
    nameless = [
        spec.name
        for app in APPS
        for spec in load(app.toolset).tools
        if "_get_" in spec.name and named & fields(spec) and not set(app.named_by) & fields(spec)
    ]

    assert nameless == []
