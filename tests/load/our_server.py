"""This server as an operator starts it: its own process, configured by its environment alone."""

import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL

import anyio
import httpx2

from nextcloud_mcp_server.settings.names import known_variables
from tests.load.client import CallFailed
from tests.load.servers import ROOT, stop


@asynccontextmanager
async def our_server(settings: Mapping[str, str], *, port: int, folder: Path) -> AsyncGenerator[int]:
    """Start it with these settings, yield its process id, and stop it at the end."""
    known = known_variables()
    kept = {name: value for name, value in os.environ.items() if name not in known}
    ours = {name.upper(): value for name, value in settings.items()}
    command = [sys.executable, "-m", "nextcloud_mcp_server", "serve", "--transport", "http"]
    with (folder / "server.log").open("wb") as log:
        started = await anyio.open_process(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            cwd=ROOT,
            env={**kept, **ours, "PYTHONPATH": str(ROOT)},
            stdin=DEVNULL,
            stdout=log.fileno(),
            stderr=log.fileno(),
        )
    try:
        async with httpx2.AsyncClient() as http:
            while started.returncode is None:
                with suppress(httpx2.TransportError):
                    await http.get(f"http://127.0.0.1:{port}/healthz")
                    break
                await anyio.sleep(0.05)
            else:
                raise CallFailed((folder / "server.log").read_text(errors="replace")[-400:])
        yield started.pid
    finally:
        await stop(started)
