"""Where foreign clients play: a sandbox, and our server as a client starts or finds it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.conformance.foreign_players import Server
from tests.conformance.foreign_table import Transport
from tests.integration.computer import open_computer
from tests.integration.world import People, open_world

#: Of the tester's environment, the server gets what the tests set for it: `make` sets an empty MFLAGS, which Inspector
#: refuses.
OURS = ("DATA_DIR", "NEXTCLOUD_HOST", "PYTHONPATH")


@asynccontextmanager
async def place(transport: Transport, folder: Path) -> AsyncGenerator[tuple[People, Server]]:
    """Serve a sandbox, and our server over this transport."""
    if transport == "http":
        async with open_world(folder, Sandbox.demo()) as world:
            headers = {"Authorization": f"Bearer {world.secret}"}
            yield world, Server(url=f"{world.url}/mcp", headers=headers)
    else:
        async with open_computer(folder) as computer:
            env = {name: value for name, value in computer.environment.items() if name in OURS}
            yield computer, Server(command=tuple(computer.command("serve", "--transport", "stdio")), env=env)
