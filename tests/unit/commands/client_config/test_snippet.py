import json
import shlex
import tomllib

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.commands.client_config.chat_client import ChatClient
from nextcloud_mcp_server.commands.client_config.snippet import ServerAddress, ServerCommand, snippet
from nextcloud_mcp_server.errors import ConfigurationError

COMMAND = ServerCommand(
    command="/home/al ice/bin/nextcloud-mcp-server",
    arguments=("serve", "--nextcloud", "https://c.example.org"),
)
ADDRESS = ServerAddress(url="http://127.0.0.1:8765/mcp", secret=SecretStr("s3cret"))
OPEN = ServerAddress(url="http://127.0.0.1:8765/mcp", secret=None)
#: Clients with a form of their own for a server that they start.
OTHERWISE = {
    ChatClient.CLAUDE_CODE,
    ChatClient.VSCODE,
    ChatClient.CODEX,
    ChatClient.OPENCODE,
    ChatClient.ZED,
    ChatClient.GOOSE,
}
STARTED = {"command": COMMAND.command, "args": list(COMMAND.arguments)}
HEADERS = {"Authorization": "Bearer s3cret"}


SET = ServerCommand(COMMAND.command, COMMAND.arguments, {"READ_ONLY": "true"})


def test_most_clients_get_a_server_to_start_in_the_same_form() -> None:
    same = {
        client: snippet(client, COMMAND).text
        for client in ChatClient
        if client not in OTHERWISE | {ChatClient.OPEN_WEBUI}
    }

    assert len(same) == 6
    for text in same.values():
        assert json.loads(text) == {"mcpServers": {"nextcloud": STARTED}}


@pytest.mark.parametrize(
    ("client", "key"),
    [
        (ChatClient.GEMINI, "httpUrl"),
        (ChatClient.QWEN, "httpUrl"),
        (ChatClient.WINDSURF, "serverUrl"),
        (ChatClient.LM_STUDIO, "url"),
    ],
)
def test_each_client_names_a_running_server_by_its_own_key(client: ChatClient, key: str) -> None:
    assert json.loads(snippet(client, ADDRESS).text) == {
        "mcpServers": {"nextcloud": {key: ADDRESS.url, "headers": HEADERS}}
    }


def test_opencode_takes_the_command_as_one_list() -> None:
    assert json.loads(snippet(ChatClient.OPENCODE, SET).text)["mcp"]["nextcloud"] == {
        "type": "local",
        "command": [COMMAND.command, *COMMAND.arguments],
        "enabled": True,
        "environment": {"READ_ONLY": "true"},
    }
    assert json.loads(snippet(ChatClient.OPENCODE, ADDRESS).text)["mcp"]["nextcloud"] == {
        "type": "remote",
        "url": ADDRESS.url,
        "enabled": True,
        "headers": HEADERS,
    }


def test_zed_calls_them_context_servers() -> None:
    assert json.loads(snippet(ChatClient.ZED, COMMAND).text) == {"context_servers": {"nextcloud": STARTED}}
    assert json.loads(snippet(ChatClient.ZED, ADDRESS).text) == {
        "context_servers": {"nextcloud": {"url": ADDRESS.url, "headers": HEADERS}}
    }


def test_goose_gets_yaml() -> None:
    usual = ["extensions:", "  nextcloud:", "    name: nextcloud", "    enabled: true"]

    assert snippet(ChatClient.GOOSE, SET).text.splitlines() == [
        *usual,
        "    type: stdio",
        "    timeout: 300",
        f'    cmd: "{COMMAND.command}"',
        '    args: ["serve", "--nextcloud", "https://c.example.org"]',
        '    envs: {"READ_ONLY": "true"}',
    ]
    assert snippet(ChatClient.GOOSE, ADDRESS).text.splitlines() == [
        *usual,
        "    type: streamable_http",
        "    timeout: 300",
        f'    uri: "{ADDRESS.url}"',
        '    headers: {"Authorization": "Bearer s3cret"}',
    ]


def test_open_webui_has_a_form_for_running_servers_alone() -> None:
    some = ServerAddress(url=ADDRESS.url, secret=ADDRESS.secret, toolsets=("notes",))

    assert snippet(ChatClient.OPEN_WEBUI, some).text.splitlines() == [
        f"URL: {ADDRESS.url}",
        "Auth: Bearer, s3cret",
        'Headers: {"X-MCP-Toolsets": "notes"}',
    ]
    with pytest.raises(ConfigurationError, match="add --http here"):
        snippet(ChatClient.OPEN_WEBUI, COMMAND)


@pytest.mark.parametrize("client", sorted({*ChatClient} - {ChatClient.OPEN_WEBUI}))
def test_each_entry_carries_the_variables_that_the_server_needs(client: ChatClient) -> None:
    text = snippet(client, SET).text

    assert "READ_ONLY" in text
    assert "READ_ONLY" not in snippet(client, COMMAND).text


def test_vscode_names_the_kind_of_server() -> None:
    assert json.loads(snippet(ChatClient.VSCODE, COMMAND).text) == {
        "servers": {"nextcloud": {"type": "stdio", **STARTED}}
    }
    assert json.loads(snippet(ChatClient.VSCODE, ADDRESS).text) == {
        "servers": {"nextcloud": {"type": "http", "url": ADDRESS.url, "headers": HEADERS}}
    }


REMOVED = ["claude", "mcp", "remove", "--scope", "user", "nextcloud"]


def test_claude_code_gets_commands_that_replace_an_entry_and_that_a_shell_reads_as_meant() -> None:
    started = [shlex.split(line) for line in snippet(ChatClient.CLAUDE_CODE, SET).text.splitlines()]
    running = [shlex.split(line) for line in snippet(ChatClient.CLAUDE_CODE, ADDRESS).text.splitlines()]

    assert started == [
        REMOVED,
        [
            *["claude", "mcp", "add", "--scope", "user", "nextcloud", "--env", "READ_ONLY=true", "--"],
            *[COMMAND.command, *COMMAND.arguments],
        ],
    ]
    assert running == [
        REMOVED,
        [
            *["claude", "mcp", "add", "--scope", "user", "--transport", "http", "nextcloud", ADDRESS.url],
            *["--header", "Authorization: Bearer s3cret"],
        ],
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
    server = ADDRESS if client is ChatClient.OPEN_WEBUI else COMMAND

    assert snippet(client, server).place.endswith(":")
