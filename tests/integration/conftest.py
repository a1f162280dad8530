from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.serve import serving
from tests.integration.computer import Computer
from tests.integration.world import Asked, Clock, World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    sandbox = Sandbox.demo()
    async with serving(sandbox) as nextcloud_url, anyio.create_task_group() as group:
        made = World(sandbox, nextcloud_url, tmp_path / "data", group, Clock())
        await made.start()
        try:
            yield made
        finally:
            await made.stop()
            group.cancel_scope.cancel()


@pytest.fixture
async def computer(tmp_path: Path) -> AsyncGenerator[Computer]:
    sandbox = Sandbox.demo()
    async with serving(sandbox) as nextcloud_url, anyio.create_task_group() as group:
        yield Computer(sandbox, nextcloud_url, tmp_path / "data", group)
        group.cancel_scope.cancel()


@pytest.fixture
def asked(world: World) -> Asked:
    """An elicitation callback for the SDK's client."""
    return Asked(world)
