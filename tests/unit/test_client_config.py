import json
import shlex
import tomllib

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.chat_client import ChatClient
from nextcloud_mcp_server.client_config import ServerAddress, ServerCommand, snippet
from nextcloud_mcp_server.errors import ConfigurationError

COMMAND = ServerCommand(
    command="/home/al ice/bin/nextcloud-mcp-server",
    arguments=("serve", "--nextcloud", "https://c.example.org"),
)
ADDRESS = ServerAddress(url="http://127.0.0.1:8765/mcp", secret=SecretStr("s3cret"))
OPEN = ServerAddress(url="http://127.0.0.1:8765/mcp", secret=None)
STARTED = {"command": COMMAND.command, "args": list(COMMAND.arguments)}
HEADERS = {"Authorization": "Bearer s3cret"}


@pytest.mark.parametrize("client", [ChatClient.CLAUDE_DESKTOP, ChatClient.CURSOR])
def test_desktop_and_cursor_get_a_server_to_start(client: ChatClient) -> None:
    assert json.loads(snippet(client, COMMAND).text) == {"mcpServers": {"nextcloud": STARTED}}


def test_vscode_names_the_kind_of_server() -> None:
    assert json.loads(snippet(ChatClient.VSCODE, COMMAND).text) == {
        "servers": {"nextcloud": {"type": "stdio", **STARTED}}
    }
    assert json.loads(snippet(ChatClient.VSCODE, ADDRESS).text) == {
        "servers": {"nextcloud": {"type": "http", "url": ADDRESS.url, "headers": HEADERS}}
    }


def test_claude_code_gets_a_command_that_a_shell_reads_as_meant() -> None:
    assert shlex.split(snippet(ChatClient.CLAUDE_CODE, COMMAND).text) == [
        *["claude", "mcp", "add", "nextcloud", "--"],
        *[COMMAND.command, *COMMAND.arguments],
    ]
    assert shlex.split(snippet(ChatClient.CLAUDE_CODE, ADDRESS).text) == [
        *["claude", "mcp", "add", "--transport", "http", "nextcloud", ADDRESS.url],
        *["--header", "Authorization: Bearer s3cret"],
    ]


def test_codex_gets_toml() -> None:
    assert tomllib.loads(snippet(ChatClient.CODEX, COMMAND).text) == {"mcp_servers": {"nextcloud": STARTED}}
    assert tomllib.loads(snippet(ChatClient.CODEX, ADDRESS).text) == {
        "mcp_servers": {"nextcloud": {"url": ADDRESS.url, "http_headers": HEADERS}}
    }


def test_cursor_gets_an_address_with_the_secret() -> None:
    assert json.loads(snippet(ChatClient.CURSOR, ADDRESS).text) == {
        "mcpServers": {"nextcloud": {"url": ADDRESS.url, "headers": HEADERS}}
    }


def test_toolsets_are_named_where_no_secret_is_asked_for_too() -> None:
    some = ServerAddress(url=OPEN.url, secret=None, toolsets=("notes", "tasks"))

    *_, header = shlex.split(snippet(ChatClient.CLAUDE_CODE, some).text)

    assert header == "X-MCP-Toolsets: notes,tasks"


@pytest.mark.parametrize("client", sorted({*ChatClient} - {ChatClient.CLAUDE_DESKTOP}))
def test_where_no_secret_is_asked_for_none_is_written(client: ChatClient) -> None:
    text = snippet(client, OPEN).text

    assert OPEN.url in text
    assert "eader" not in text


def test_claude_desktop_cannot_use_a_running_server() -> None:
    with pytest.raises(ConfigurationError, match="leave out --http"):
        snippet(ChatClient.CLAUDE_DESKTOP, ADDRESS)


@pytest.mark.parametrize("client", list(ChatClient))
def test_each_snippet_says_where_it_goes(client: ChatClient) -> None:
    assert snippet(client, COMMAND).place.endswith(":")
