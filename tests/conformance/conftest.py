"""Clients that others wrote, installed beside ours."""

import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.conformance.foreign_install import python_of
from tests.conformance.mcpdo import Mcpdo
from tests.integration.computer import Computer, open_computer
from tests.integration.crowd import Crowd, open_crowd
from tests.integration.world import World, open_world
from tests.node import NODE_MODULES, find_node, not_installed

INSPECTOR = NODE_MODULES / "@modelcontextprotocol" / "inspector"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with open_world(tmp_path / "data", Sandbox.demo()) as made:
        yield made


@pytest.fixture
async def crowd(tmp_path: Path) -> AsyncGenerator[Crowd]:
    async with open_crowd(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def computer(tmp_path: Path) -> AsyncGenerator[Computer]:
    async with open_computer(tmp_path / "data") as made:
        yield made


@pytest.fixture(scope="session")
def python_1_30() -> Path:
    """A Python with version 1.30 of the SDK; made once, and kept."""
    return python_of("sdk_1")


@pytest.fixture(scope="session")
def node() -> str:
    """A Node that Inspector runs on."""
    return find_node()


@pytest.fixture
def mcpdo(node: str) -> Iterator[Mcpdo]:
    """Inspector's command line, with a home and a background process of its own."""
    script = INSPECTOR / "clients" / "mcpdo" / "build" / "mcp-bin.js"
    if not script.is_file():
        not_installed("Inspector")
    # Not the test's own folder: the name of a socket holds a hundred letters.
    with tempfile.TemporaryDirectory(prefix="mcpdo") as home:
        made = Mcpdo([node, str(script)], Path(home))
        try:
            yield made
        finally:
            made.stop()
