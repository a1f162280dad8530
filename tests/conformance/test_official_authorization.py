"""The official conformance runner's scenarios for authorization servers, against ours."""

import re
import socket
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.sandbox.person import Person
from tests.conformance.test_official_runner import known_scenarios, runner_script
from tests.integration.builtin_app import BuiltinApp, open_builtin_app


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path / "data") as opened:
        yield opened


async def test_the_official_scenarios_for_authorization_servers_pass(
    builtin_app: BuiltinApp, node: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        callback = f"http://127.0.0.1:{free.getsockname()[1]}/callback"
    async with httpx2.AsyncClient() as http, builtin_app.person("alice") as alice:
        client_id = str((await builtin_app.register(http, redirect_uris=[callback]))["client_id"])
        command = [node, runner_script(), "authorization", "--url", builtin_app.url, "--client-id", client_id]
        command += [
            "--resource",
            f"{builtin_app.url}/mcp",
            "--port",
            callback.split(":")[2].partition("/")[0],
        ]
        process = await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd=tmp_path
        )
        with anyio.fail_after(120):
            async with process:
                said = await _play(process, builtin_app, alice, callback)

    assert process.returncode == 0, said
    assert (
        set(re.findall(r"^✓ ([\w-]+): \d+ passed, 0 failed", said, re.MULTILINE))
        == (await known_scenarios(node, "Authorization server")).keys()
    )


async def _play(process: anyio.abc.Process, builtin_app: BuiltinApp, alice: Person, callback: str) -> str:
    """Read what the runner says, and send the user where it wants to have them."""
    assert process.stdout
    said, sent = "", False
    async for chunk in process.stdout:
        said += chunk.decode()
        link = re.search(rf"^({builtin_app.url}/authorize\?\S+)\n", said, re.MULTILINE)
        if link is not None and not sent and "Callback server started" in said:
            sent = True
            back = await alice.sign_in(link[1], until=callback)
            async with httpx2.AsyncClient() as browser:
                await browser.get(back)
    return said
