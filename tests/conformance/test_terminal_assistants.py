"""Assistants in the terminal, with a scripted model: the link comes to the user, and the next run has the result."""

import os
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.conformance.foreign_assistants import ASSISTANTS, Assistant, Run, surroundings
from tests.conformance.foreign_install import assistant_program
from tests.conformance.foreign_players import Server
from tests.conformance.foreign_table import Transport
from tests.conformance.scripted_model import serving_model
from tests.integration.computer import open_computer
from tests.integration.world import People, open_world

#: A link to Nextcloud's own page or to ours, in whatever form an assistant passes a text on.
LINK = re.compile(r"https?://[^\s\"\\]+/(?:login/v2/flow/\w+|oauth/provision\?elicitationId=[\w-]+)")
#: Of the tester's environment, the server gets what the tests set for it.
OURS = ("DATA_DIR", "NEXTCLOUD_HOST", "PYTHONPATH")

pytestmark = pytest.mark.clients


async def said(program: list[str], run: Run, home: Path) -> str:
    """Run the assistant once; the answer is what it prints for its user."""
    with anyio.fail_after(180):
        done = await anyio.run_process(
            [*program, *run.arguments],
            stdin=subprocess.DEVNULL,
            check=False,
            cwd=home,
            env={**surroundings(home), **run.env},
        )
    text = done.stdout.decode()
    assert done.returncode == 0, text + done.stderr.decode()
    if folder := os.environ.get("CLIENT_TRANSCRIPTS"):
        with (Path(folder) / f"{Path(program[-1]).name}.txt").open("a") as kept:
            kept.write(f"$ {Path(program[-1]).name} {' '.join(run.arguments)}\n{text}\n")
    return text


@asynccontextmanager
async def place(transport: Transport, folder: Path) -> AsyncGenerator[tuple[People, Server]]:
    """Serve a sandbox, and our server as the assistant starts or finds it."""
    if transport == "http":
        async with open_world(folder, Sandbox.demo()) as world:
            headers = {"Authorization": f"Bearer {world.secret}"}
            yield world, Server(url=f"{world.url}/mcp", headers=headers)
    else:
        async with open_computer(folder) as computer:
            env = {name: value for name, value in computer.environment.items() if name in OURS}
            yield computer, Server(command=tuple(computer.command("serve", "--transport", "stdio")), env=env)


@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("assistant", ASSISTANTS, ids=lambda assistant: assistant.package)
async def test_an_assistant_shows_the_link_and_has_the_result_in_its_next_run(
    assistant: Assistant, transport: Transport, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    program = assistant_program(assistant.program)
    async with (
        place(transport, tmp_path / "data") as (people, server),
        serving_model("nc_notes_list_notes") as (model, url),
        people.person() as alice,
    ):
        run = assistant.set_up(home, server, url)
        first = await said(program, run, home)
        assert model.offered, "the tools were not offered to the model"
        link = LINK.search(first)
        assert link is not None, first
        assert link[0] in model.heard[0]
        await alice.allow(link[0])
        second = await said(program, run, home)

    assert "Shopping list" in second
    assert "opens this link" not in second
