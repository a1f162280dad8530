"""The servers for third-party clients: a sandbox, and this server as a client starts or finds it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.conformance.client_runners import Server
from tests.conformance.third_party_clients import Transport
from tests.integration.personal_app import People, open_personal_app
from tests.integration.stdio_app import open_stdio_app

#: The environment variables that the server keeps: `make` sets an empty MFLAGS, which Inspector refuses.
OURS = ("CONSENT_PAGE", "DATA_DIR", "NEXTCLOUD_HOST", "PYTHONPATH")


@asynccontextmanager
async def place(transport: Transport, folder: Path) -> AsyncGenerator[tuple[People, Server]]:
    """Serve a sandbox, and this server with the given transport."""
    if transport == "http":
        async with open_personal_app(folder, Sandbox.demo()) as personal_app:
            headers = {"Authorization": f"Bearer {personal_app.secret}"}
            yield personal_app, Server(url=f"{personal_app.url}/mcp", headers=headers)
    else:
        async with open_stdio_app(folder) as stdio_app:
            env = {name: value for name, value in stdio_app.environment.items() if name in OURS}
            yield (
                stdio_app,
                Server(command=tuple(stdio_app.command("serve", "--transport", "stdio")), env=env),
            )
