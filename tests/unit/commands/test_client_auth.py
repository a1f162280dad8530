"""`client auth` and `client logout` on the command line: what they print, and how they end."""

import os
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

from nextcloud_mcp_server.cli import app
from nextcloud_mcp_server.commands.client_auth import TerminalPaste

CONFIG = """
[mcp_servers.quiet]
type = "http"
url = "http://127.0.0.1:9/mcp"
oauth = "auto"

[mcp_servers.open]
type = "http"
url = "https://open.example/mcp"

[mcp_servers.local]
command = "true"
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Run":
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("NEXTCLOUD_MCP_CLIENT_TOKEN_STORE", "file")
    file = tmp_path / "mcp.toml"
    file.write_text(CONFIG)
    return Run(file)


class Run:
    """Runs a command with a configuration."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, *words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["client", "--config", str(self.file), *words])
        return done.exit_code, done.output


@pytest.mark.parametrize("command", ["auth", "logout"])
@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ("local", "auth is only supported for HTTP servers"),
        ("open", 'open has oauth = "off"'),
        ("missing", "MCP server not found: missing"),
    ],
)
def test_a_server_without_a_sign_in_is_told_so(run: Run, command: str, server: str, sentence: str) -> None:
    code, output = run(command, server)

    assert code == 2
    assert sentence in output


def test_a_server_that_is_not_there_is_one_sentence(run: Run) -> None:
    code, output = run("auth", "quiet", "--no-browser")

    assert code == 5
    assert output == "Error: quiet cannot be reached; check its url, or try again later.\n"


def test_an_address_is_called_by_itself(run: Run) -> None:
    code, output = run("auth", "http://127.0.0.1:9/mcp", "--no-browser")

    assert code == 5
    assert "http://127.0.0.1:9/mcp cannot be reached" in output


def test_an_address_that_is_not_encrypted_gets_no_token(run: Run) -> None:
    code, output = run("auth", "http://nextcloud.example/mcp")

    assert code == 5
    assert "has no https URL" in output


def test_a_port_that_is_none_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXTCLOUD_MCP_CLIENT_OAUTH_PORT", "many")

    code, output = run("auth", "quiet")

    assert code == 2
    assert "NEXTCLOUD_MCP_CLIENT_OAUTH_PORT must be a port" in output


def test_a_sign_out_without_a_sign_in_says_so(run: Run) -> None:
    assert run("logout", "quiet") == (0, "Not signed in to quiet.\n")


async def test_lines_of_a_terminal_are_read_beside_the_sign_in() -> None:
    reading, writing = os.pipe()
    paste = TerminalPaste(reading)
    with anyio.fail_after(10):
        os.write(writing, b"http://127.0.0.1:1/callback?code=c&state=s\n")
        assert await paste.line() == "http://127.0.0.1:1/callback?code=c&state=s\n"
        os.close(writing)
        assert await paste.line() == ""
    os.close(reading)
