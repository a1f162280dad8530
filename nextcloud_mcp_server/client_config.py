"""How each chat client is told about this server: the exact text, and where it goes."""

import json
import shlex
from dataclasses import dataclass

from pydantic import SecretStr

from nextcloud_mcp_server.chat_client import ChatClient
from nextcloud_mcp_server.errors import ConfigurationError

_NAME = "nextcloud"


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """A server that the client starts itself, over stdio."""

    command: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server that runs already, over HTTP; `secret` is None where it asks for none.

    `toolsets` are those of the server's that this client wants; none named: all that are on there.
    """

    url: str
    secret: SecretStr | None
    toolsets: tuple[str, ...] = ()

    @property
    def headers(self) -> dict[str, str]:
        """What the client must send along."""
        sent = {"Authorization": f"Bearer {self.secret.get_secret_value()}"} if self.secret else {}
        return {**sent, "X-MCP-Toolsets": ",".join(self.toolsets)} if self.toolsets else sent


@dataclass(frozen=True, slots=True)
class Snippet:
    """A text to paste, and a sentence about where to."""

    place: str
    text: str


_PLACES = {
    ChatClient.CLAUDE_DESKTOP: "Put this into claude_desktop_config.json "
    "(Settings → Developer → Edit Config) and restart Claude Desktop:",
    ChatClient.CLAUDE_CODE: "Run this in a terminal:",
    ChatClient.VSCODE: "Put this into .vscode/mcp.json of your workspace "
    "(or run “MCP: Open User Configuration” for all of them):",
    ChatClient.CURSOR: "Put this into .cursor/mcp.json of your project (or ~/.cursor/mcp.json for all):",
    ChatClient.CODEX: "Add this to ~/.codex/config.toml:",
}


def snippet(client: ChatClient, server: ServerCommand | ServerAddress) -> Snippet:
    """Write the configuration of one client.

    Raises:
        ConfigurationError: The client cannot use a server that runs already.
    """
    if isinstance(server, ServerAddress) and client is ChatClient.CLAUDE_DESKTOP:
        raise ConfigurationError("Claude Desktop starts the server itself: leave out --http.")
    text = (
        _from_command(client, server) if isinstance(server, ServerCommand) else _from_address(client, server)
    )
    return Snippet(place=_PLACES[client], text=text)


def _from_command(client: ChatClient, server: ServerCommand) -> str:
    entry: dict[str, object] = {"command": server.command, "args": list(server.arguments)}
    match client:
        case ChatClient.CLAUDE_CODE:
            return shlex.join(["claude", "mcp", "add", _NAME, "--", server.command, *server.arguments])
        case ChatClient.VSCODE:
            return _json({"servers": {_NAME: {"type": "stdio", **entry}}})
        case ChatClient.CLAUDE_DESKTOP | ChatClient.CURSOR:
            return _json({"mcpServers": {_NAME: entry}})
        case ChatClient.CODEX:
            arguments = ", ".join(_toml(argument) for argument in server.arguments)
            return f"[mcp_servers.{_NAME}]\ncommand = {_toml(server.command)}\nargs = [{arguments}]"


def _from_address(client: ChatClient, server: ServerAddress) -> str:
    entry: dict[str, object] = {"url": server.url}
    if server.headers:
        entry["headers"] = server.headers
    match client:
        case ChatClient.CLAUDE_CODE:
            headers = [f"{name}: {value}" for name, value in server.headers.items()]
            options = [part for header in headers for part in ("--header", header)]
            # `--header` takes any number of values, so it must stand last.
            return shlex.join(["claude", "mcp", "add", "--transport", "http", _NAME, server.url, *options])
        case ChatClient.VSCODE:
            return _json({"servers": {_NAME: {"type": "http", **entry}}})
        case ChatClient.CODEX:
            lines = [f"[mcp_servers.{_NAME}]", f"url = {_toml(server.url)}"]
            pairs = ", ".join(f"{_toml(name)} = {_toml(value)}" for name, value in server.headers.items())
            return "\n".join([*lines, f"http_headers = {{ {pairs} }}"] if pairs else lines)
        case _:
            return _json({"mcpServers": {_NAME: entry}})


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _toml(text: str) -> str:
    # A JSON string without exotic characters is a TOML basic string.
    return json.dumps(text, ensure_ascii=False)
