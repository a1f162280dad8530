from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.integration.computer import Computer, open_computer
from tests.integration.crowd import Crowd, open_crowd
from tests.integration.world import Asked, World, open_world


@pytest.fixture
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[World]:
    sandbox = Sandbox.demo(**getattr(request, "param", {}))
    async with open_world(tmp_path / "data", sandbox) as made:
        yield made


@pytest.fixture
async def crowd(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Crowd]:
    async with open_crowd(tmp_path / "data", **getattr(request, "param", {})) as made:
        yield made


@pytest.fixture
async def computer(tmp_path: Path) -> AsyncGenerator[Computer]:
    async with open_computer(tmp_path / "data") as made:
        yield made


@pytest.fixture
def asked(world: World) -> Asked:
    """An elicitation callback for the SDK's client."""
    return Asked(world)
