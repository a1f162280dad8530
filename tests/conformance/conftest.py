"""Fixtures for third-party clients."""

import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.conformance.client_install import python_of
from tests.conformance.mcpdo import Mcpdo
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.integration.personal_app import PersonalApp, open_personal_app
from tests.integration.stdio_app import StdioApp, open_stdio_app
from tests.node import NODE_MODULES, find_node, not_installed

INSPECTOR = NODE_MODULES / "@modelcontextprotocol" / "inspector"


@pytest.fixture
async def personal_app(tmp_path: Path) -> AsyncGenerator[PersonalApp]:
    async with open_personal_app(tmp_path / "data", Sandbox.demo()) as made:
        yield made


@pytest.fixture
async def oidc_app(tmp_path: Path) -> AsyncGenerator[OidcApp]:
    async with open_oidc_app(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def stdio_app(tmp_path: Path) -> AsyncGenerator[StdioApp]:
    async with open_stdio_app(tmp_path / "data") as made:
        yield made


@pytest.fixture(scope="session")
def python_1_30() -> Path:
    """A Python with version 1.30 of the SDK; created once, and kept."""
    return python_of("sdk_1")


@pytest.fixture(scope="session")
def node() -> str:
    """The Node for Inspector."""
    return find_node()


@pytest.fixture
def mcpdo(node: str) -> Iterator[Mcpdo]:
    """Inspector's command line, with a home and a background process of its own."""
    script = INSPECTOR / "clients" / "mcpdo" / "build" / "mcp-bin.js"
    if not script.is_file():
        not_installed("Inspector")
    # Not the test's own folder: the path of a socket is limited to a hundred characters.
    with tempfile.TemporaryDirectory(prefix="mcpdo") as home:
        made = Mcpdo([node, str(script)], Path(home))
        try:
            yield made
        finally:
            made.stop()
