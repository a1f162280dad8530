"""`sandbox`: a Nextcloud at which an operator can rehearse the set-up of a server for many users."""

import re
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.commands.sandbox import serve_sandbox
from nextcloud_mcp_server.commands.setup import setup_nextcloud
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.settings.environment import child_environment, load_draft

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def sandbox_url() -> Generator[str]:
    """Run the command as an operator does, and yield the address that it prints."""
    command = [
        sys.executable,
        "-m",
        "nextcloud_mcp_server",
        "sandbox",
        "--port",
        "0",
        "--sandbox-version",
        "33",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=child_environment({})) as process:
        assert process.stderr is not None
        said = re.fullmatch(r"Sandbox Nextcloud 33, listening on (\S+)\n", process.stderr.readline())
        assert said is not None
        yield said[1]
        process.terminate()


@pytest.mark.process
def test_this_server_can_be_registered_at_a_sandbox_that_runs_by_itself(
    sandbox_url: str, tmp_path: Path, capsys: Capture
) -> None:
    draft = load_draft(nextcloud_host=sandbox_url, nextcloud_mcp_server_url="http://127.0.0.1:8765")

    setup_nextcloud(
        draft,
        lambda: BasicCredential("admin", SecretStr("admin")),
        into=tmp_path,
        may_allow=lambda _: True,
    )

    assert (tmp_path / "nextcloud-client-secret").read_text().strip()
    assert "on its allow list now" in capsys.readouterr().err


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigurationError, match="--port"):
        serve_sandbox(taken.getsockname()[1], "34")
