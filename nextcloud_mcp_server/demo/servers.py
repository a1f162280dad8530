"""The servers of the demo: a sandbox Nextcloud, and this server in its own process."""

import re
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import Process

from nextcloud_mcp_server.demo.narrator import Narrator
from nextcloud_mcp_server.demo.oauth_client import REDIRECT_URI
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.issuer import Issuer
from nextcloud_mcp_server.sandbox.profile import USUAL, ProfileName
from nextcloud_mcp_server.sandbox.serve import LOOPBACK, serving
from nextcloud_mcp_server.settings.environment import child_environment
from nextcloud_mcp_server.storage.crypto import new_key

_LISTENING = re.compile(r"listening on (?P<url>http://(?P<host>[^:/]+):(?P<port>\d+)/mcp)")
#: The name of Alice's and Bob's client at the issuer.
ASSISTANT = "demo-assistant"
_LOGIN_CLIENT = "nextcloud-mcp-server"
#: A call after the refusal of Bob is held for this long, since Alice's client has the link already: nothing happens
#: meanwhile. With the default of a server the journey would stand still for 25 seconds.
_SHORT_HOLD = {"HOLD_SECONDS": "4"}
_START_SECONDS = 60
_STOP_SECONDS = 5
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class SingleUserServers:
    """Both servers of a single-user demo, running."""

    sandbox: Sandbox
    nextcloud_url: str
    mcp_url: str
    secret: str
    process_id: int


@dataclass(frozen=True, slots=True)
class MultiUserServers:
    """All three servers of mode `oidc`, running."""

    sandbox: Sandbox
    issuer: Issuer
    nextcloud_url: str
    mcp_url: str
    process_id: int


@dataclass(frozen=True, slots=True)
class BuiltinServers:
    """Both servers of mode `builtin`, running; users sign in with Nextcloud."""

    sandbox: Sandbox
    nextcloud_url: str
    mcp_url: str
    process_id: int


@asynccontextmanager
async def open_single_user_servers(
    narrator: Narrator, version: ProfileName = USUAL
) -> AsyncGenerator[SingleUserServers]:
    """Start both servers on free ports of this computer; leaves nothing behind."""
    sandbox = Sandbox.demo(version=version)
    secret = secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory(prefix="nextcloud-mcp-demo-") as folder:
        async with (
            serving(sandbox) as nextcloud_url,
            run_server(Path(folder), nextcloud_url, narrator, {"NEXTCLOUD_MCP_SECRET": secret}) as (
                mcp_url,
                process,
            ),
        ):
            yield SingleUserServers(sandbox, nextcloud_url, mcp_url, secret, process.pid)


@asynccontextmanager
async def open_multi_user_servers(
    narrator: Narrator, version: ProfileName = USUAL
) -> AsyncGenerator[MultiUserServers]:
    """Start a Nextcloud, an issuer and a multi-user server; leaves nothing behind."""
    sandbox, issuer = Sandbox.demo(version=version), Issuer()
    url = f"http://{LOOPBACK}:{_free_port()}"
    login_secret = secrets.token_urlsafe(32)
    # The configuration by an administrator, once, at Nextcloud and at the identity provider.
    client = sandbox.state.new_oauth_client(f"Assistants at {url}", f"{url}/oauth/callback/nextcloud")
    issuer.add_client(_LOGIN_CLIENT, secret=login_secret, redirect_uris=[f"{url}/oauth/callback/sign-in"])
    issuer.add_client(ASSISTANT, redirect_uris=[REDIRECT_URI])
    with tempfile.TemporaryDirectory(prefix="nextcloud-mcp-demo-") as folder:
        async with serving(sandbox) as nextcloud_url, serving(issuer) as issuer_url:
            variables = {
                **_SHORT_HOLD,
                "MODE": "oidc",
                "NEXTCLOUD_MCP_SERVER_URL": url,
                "TOKEN_ENCRYPTION_KEYS": new_key(),
                "OIDC_ISSUER": issuer_url,
                "OIDC_CLIENT_ID": _LOGIN_CLIENT,
                "OIDC_CLIENT_SECRET": login_secret,
                "TOKEN_SCOPES": "ignore",
                "NEXTCLOUD_OAUTH_CLIENT_ID": client.client_id,
                "NEXTCLOUD_OAUTH_CLIENT_SECRET": client.client_secret,
            }
            port = url.rpartition(":")[2]
            running = run_server(Path(folder), nextcloud_url, narrator, variables, port=port)
            async with running as (mcp_url, process):
                yield MultiUserServers(sandbox, issuer, nextcloud_url, mcp_url, process.pid)


@asynccontextmanager
async def open_builtin_servers(
    narrator: Narrator, version: ProfileName = USUAL
) -> AsyncGenerator[BuiltinServers]:
    """Start a Nextcloud and a server that signs users in with it; leaves nothing behind."""
    sandbox = Sandbox.demo(version=version)
    url = f"http://{LOOPBACK}:{_free_port()}"
    # The configuration by an administrator, once, at Nextcloud.
    client = sandbox.state.new_oauth_client(f"Assistants at {url}", f"{url}/oauth/callback/nextcloud")
    with tempfile.TemporaryDirectory(prefix="nextcloud-mcp-demo-") as folder:
        async with serving(sandbox) as nextcloud_url:
            variables = {
                **_SHORT_HOLD,
                "MODE": "builtin",
                "NEXTCLOUD_MCP_SERVER_URL": url,
                "TOKEN_ENCRYPTION_KEYS": new_key(),
                "NEXTCLOUD_OAUTH_CLIENT_ID": client.client_id,
                "NEXTCLOUD_OAUTH_CLIENT_SECRET": client.client_secret,
            }
            port = url.rpartition(":")[2]
            running = run_server(Path(folder), nextcloud_url, narrator, variables, port=port)
            async with running as (mcp_url, process):
                yield BuiltinServers(sandbox, nextcloud_url, mcp_url, process.pid)


def _free_port() -> int:
    """Return a free port, for a server whose address is one of its settings."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        return int(taken.getsockname()[1])


@asynccontextmanager
async def run_server(
    folder: Path, nextcloud_url: str, narrator: Narrator, variables: Mapping[str, str], *, port: str = "0"
) -> AsyncGenerator[tuple[str, Process]]:
    """Run this server as a process, as operators do, while the block runs; its data is in `folder`.

    Raises:
      NotAsPromised: It did not start; the error has its last output.
    """
    command = [sys.executable, "-m", "nextcloud_mcp_server", "serve"]
    command += ["--transport", "http", "--port", port, "--nextcloud", nextcloud_url]
    environment = child_environment({"DATA_DIR": str(folder / "data"), **variables})
    log = folder / "server.log"
    with log.open("wb") as output:
        process = await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        )
        try:
            async with narrator.waiting("The server starts"):
                url = await _listening(process, log)
            yield url, process
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process)


async def _listening(process: Process, log: Path) -> str:
    """Wait until the server logs its address and answers there."""
    said_so_far = anyio.Path(log)
    with anyio.move_on_after(_START_SECONDS):
        while process.returncode is None:
            text = await said_so_far.read_text(encoding="utf-8")
            if (said := _LISTENING.search(text)) and await _answers(said["host"], int(said["port"])):
                return said["url"]
            await anyio.sleep(_LOOK_SECONDS)
    lines = (await said_so_far.read_text(encoding="utf-8")).splitlines()
    raise NotAsPromised(f"The server did not start; the last it said: {lines[-1] if lines else 'nothing'}")


async def _answers(host: str, port: int) -> bool:
    try:
        stream = await anyio.connect_tcp(host, port)
    except OSError:
        return False
    await stream.aclose()
    return True


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(_STOP_SECONDS):
            await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()
