"""What a model is told of each tool, one file a tool: a change is seen in review (`make snapshots`).

The schema of its arguments is in `nextcloud_mcp_server/tools/schemas.json`, one tool a line (`make docs`).
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nextcloud_mcp_server.server import mcp_server
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.tools.answer import compact
from nextcloud_mcp_server.tools.boundary import AUDIT_FIELDS
from nextcloud_mcp_server.tools.registry import TOOLSETS
from nextcloud_mcp_server.tools.toolset import ToolSpec

FOLDER = Path(__file__).parent / "tools"
SPECS = mcp_server.select(TOOLSETS, exclude=(), read_only=False)


def listed(spec: ToolSpec) -> dict[str, Any]:
    hints = {"readOnlyHint": spec.read_only, "openWorldHint": spec.open_world}
    if not spec.read_only:
        hints |= {"destructiveHint": spec.destructive, "idempotentHint": spec.idempotent}
    return {
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        "inputSchema": spec.arguments.schema,
        "annotations": {"title": spec.title, **hints},
    }


def sizes_of(specs: list[ToolSpec]) -> dict[str, int]:
    return {spec.name: len(compact(listed(spec)).encode()) for spec in specs}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_tools_snapshot_is_what_is_listed(spec: ToolSpec) -> None:
    told = {name: value for name, value in listed(spec).items() if name != "inputSchema"}
    text = json.dumps(told, indent=2, ensure_ascii=False) + "\n"
    file = FOLDER / f"{spec.name}.json"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")

    assert file.is_file(), "A tool without a snapshot: run make snapshots, and look at it."
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_what_a_server_lists_is_what_the_tool_takes(spec: ToolSpec) -> None:
    assert spec.schema == spec.arguments.schema, "The printed schemas are old: run make docs."


def test_there_is_no_snapshot_of_a_tool_that_is_gone() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == {spec.name for spec in SPECS}


def test_the_default_tool_list_is_one_that_a_model_can_afford() -> None:
    sizes = sizes_of(mcp_server.select(Settings().toolsets, exclude=(), read_only=False))

    assert len(sizes) <= 24
    assert sum(sizes.values()) <= 16_000


def test_the_whole_tool_list_is_one_that_a_model_can_afford() -> None:
    """B71: what the list of tools costs a model is bounded in every mode, and so is each tool."""
    sizes = sizes_of(SPECS)

    assert len(sizes) <= 90, "A list of more is no use to a model: let one tool do what several did."
    assert sum(sizes.values()) <= 56_000
    assert max(sizes.values()) <= 1_200


def test_reading_alone_costs_a_model_less() -> None:
    """B71: a server that only reads does not list what changes something."""
    reading = sizes_of(mcp_server.select(TOOLSETS, exclude=(), read_only=True))

    assert sum(reading.values()) < 0.7 * sum(sizes_of(SPECS).values())


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_description_has_at_most_two_sentences(spec: ToolSpec) -> None:
    assert spec.description.rstrip(".").count(". ") <= 1


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_tool_that_only_reads_asks_for_no_writing_permission(spec: ToolSpec) -> None:
    writes = any(scope.endswith(":write") for scope in spec.scopes)

    # One that saves a file on this computer changes that alone.
    assert writes != spec.read_only or spec.toolset == "connection" or spec.local


def test_the_audit_names_every_id_that_a_tool_takes() -> None:
    taken = {name for spec in SPECS for name in spec.schema.get("properties", {})}

    assert {name for name in taken if name.endswith(("_id", "_ids"))} <= set(AUDIT_FIELDS)
