"""Assistants in the terminal, with a scripted model: the link comes to the user, and the next run has the result."""

import os
import re
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.conformance.client_install import assistant_program
from tests.conformance.client_servers import place
from tests.conformance.scripted_model import serving_model
from tests.conformance.terminal_assistants import ASSISTANTS, AuthorizingClient, Run, surroundings
from tests.conformance.third_party_clients import Transport

#: A link to Nextcloud's own page or to ours, in whatever form an assistant passes a text on.
LINK = re.compile(r"https?://[^\s\"\\]+/(?:login/v2/flow/\w+|oauth/provision\?elicitationId=[\w-]+)")

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


@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("mcp_client", ASSISTANTS, ids=lambda mcp_client: mcp_client.package)
async def test_an_assistant_shows_the_link_and_has_the_result_in_its_next_run(
    mcp_client: AuthorizingClient, transport: Transport, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    program = assistant_program(mcp_client.program)
    async with (
        place(transport, tmp_path / "data") as (people, server),
        serving_model("nc_notes_list_notes") as (model, url),
        people.person() as alice,
    ):
        run = mcp_client.set_up(home, server, url)
        first = await said(program, run, home)
        assert model.offered, "the tools were not offered to the model"
        link = LINK.search(first)
        assert link is not None, first
        assert link[0] in model.heard[0]
        await alice.allow(link[0])
        second = await said(program, run, home)

    assert "Shopping list" in second
    assert "opens this link" not in second
