"""The configuration of each chat client for this server: the exact text, and its place."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import SecretStr

from nextcloud_mcp_server.commands.client_config.chat_client import ChatClient
from nextcloud_mcp_server.errors import ConfigurationError

_NAME = "nextcloud"


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """A server that the client starts itself, over stdio; clients pass on few variables besides these."""

    command: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server that is already running, over HTTP; `secret` is None where it requires none.

    `toolsets` are those that this client is to use; empty for all that the server has enabled.
    """

    url: str
    secret: SecretStr | None
    toolsets: tuple[str, ...] = ()

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the client must send."""
        sent = {"Authorization": f"Bearer {self.secret.get_secret_value()}"} if self.secret else {}
        return {**sent, "X-MCP-Toolsets": ",".join(self.toolsets)} if self.toolsets else sent


@dataclass(frozen=True, slots=True)
class Snippet:
    """A text to paste, and a sentence about its place."""

    place: str
    text: str


def snippet(client: ChatClient, server: ServerCommand | ServerAddress) -> Snippet:
    """Return the configuration for one client.

    Raises:
      ConfigurationError: The client cannot start a server, or cannot use a running one.
    """
    form = _FORMS[client]
    if isinstance(server, ServerCommand):
        if form.command is None:
            raise ConfigurationError(
                f"{form.name} starts no servers itself: start one with serve --transport http, and add --http here."
            )
        return Snippet(form.place, form.command(server))
    if form.address is None:
        raise ConfigurationError(f"{form.name} starts the server itself: leave out --http.")
    return Snippet(form.place, form.address(server))


@dataclass(frozen=True, slots=True)
class _Form:
    """The configuration of one client; None for a kind of server that it cannot use."""

    name: str
    place: str
    command: Callable[[ServerCommand], str] | None
    address: Callable[[ServerAddress], str] | None


def _started(server: ServerCommand) -> dict[str, object]:
    entry: dict[str, object] = {"command": server.command, "args": list(server.arguments)}
    return {**entry, "env": dict(server.environment)} if server.environment else entry


def _with_headers(entry: dict[str, object], server: ServerAddress) -> dict[str, object]:
    return {**entry, "headers": server.headers} if server.headers else entry


def _below(key: str, entry: dict[str, object]) -> str:
    """Return the settings that contain the entry, as JSON."""
    return json.dumps({key: {_NAME: entry}}, indent=2, ensure_ascii=False)


def _servers(server: ServerCommand) -> str:
    return _below("mcpServers", _started(server))


def _servers_at(key: str) -> Callable[[ServerAddress], str]:
    return lambda server: _below("mcpServers", _with_headers({key: server.url}, server))


def _claude_code(*arguments: str) -> str:
    """Remove an earlier entry, since Claude Code refuses a second one; then add one for every folder."""
    scope = ("--scope", "user")
    remove = shlex.join(["claude", "mcp", "remove", *scope, _NAME])
    return f"{remove}\n{shlex.join(['claude', 'mcp', 'add', *scope, *arguments])}"


def _claude_code_command(server: ServerCommand) -> str:
    variables = [part for pair in server.environment.items() for part in ("--env", "=".join(pair))]
    return _claude_code(_NAME, *variables, "--", server.command, *server.arguments)


def _claude_code_address(server: ServerAddress) -> str:
    headers = [f"{name}: {value}" for name, value in server.headers.items()]
    # `--header` takes any number of values, so it must be last.
    options = [part for header in headers for part in ("--header", header)]
    return _claude_code("--transport", "http", _NAME, server.url, *options)


def _codex_command(server: ServerCommand) -> str:
    lines = [
        f"[mcp_servers.{_NAME}]",
        f"command = {_quoted(server.command)}",
        f"args = {_list(server.arguments)}",
    ]
    return "\n".join([*lines, f"env = {_table(server.environment)}"] if server.environment else lines)


def _codex_address(server: ServerAddress) -> str:
    lines = [f"[mcp_servers.{_NAME}]", f"url = {_quoted(server.url)}"]
    return "\n".join([*lines, f"http_headers = {_table(server.headers)}"] if server.headers else lines)


def _opencode_command(server: ServerCommand) -> str:
    command = [server.command, *server.arguments]
    entry: dict[str, object] = {"type": "local", "command": command, "enabled": True}
    return _below("mcp", {**entry, "environment": dict(server.environment)} if server.environment else entry)


def _opencode_address(server: ServerAddress) -> str:
    return _below("mcp", _with_headers({"type": "remote", "url": server.url, "enabled": True}, server))


def _goose(kind: str, **fields: str) -> str:
    """Return YAML; a JSON string or list is valid in it."""
    entry = {"name": _NAME, "enabled": "true", "type": kind, "timeout": "300", **fields}
    return "\n".join(
        ["extensions:", f"  {_NAME}:", *(f"    {name}: {value}" for name, value in entry.items())]
    )


def _goose_command(server: ServerCommand) -> str:
    envs = {"envs": json.dumps(server.environment, ensure_ascii=False)} if server.environment else {}
    return _goose("stdio", cmd=_quoted(server.command), args=_list(server.arguments), **envs)


def _goose_address(server: ServerAddress) -> str:
    headers = {"headers": json.dumps(server.headers, ensure_ascii=False)} if server.headers else {}
    return _goose("streamable_http", uri=_quoted(server.url), **headers)


def _open_webui_address(server: ServerAddress) -> str:
    lines = [f"URL: {server.url}"]
    if server.secret is not None:
        lines.append(f"Auth: Bearer, {server.secret.get_secret_value()}")
    if server.toolsets:
        lines.append(f"Headers: {json.dumps({'X-MCP-Toolsets': ','.join(server.toolsets)})}")
    return "\n".join(lines)


def _table(values: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in values.items())
    return f"{{ {pairs} }}"


def _list(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(_quoted(text) for text in texts)}]"


def _quoted(text: str) -> str:
    # A JSON string without unusual characters is a basic string of TOML, and a scalar of YAML.
    return json.dumps(text, ensure_ascii=False)


_FORMS = {
    ChatClient.CLAUDE_DESKTOP: _Form(
        "Claude Desktop",
        "Put this into claude_desktop_config.json (Settings → Developer → Edit Config) and restart Claude Desktop:",
        _servers,
        None,
    ),
    ChatClient.CLAUDE_CODE: _Form(
        "Claude Code",
        "Run this in a terminal. The first line removes an earlier entry; if it finds none, go on with the second:",
        _claude_code_command,
        _claude_code_address,
    ),
    ChatClient.VSCODE: _Form(
        "VS Code",
        "Put this into .vscode/mcp.json of your workspace (or run “MCP: Open User Configuration” for all of them):",
        lambda server: _below("servers", {"type": "stdio", **_started(server)}),
        lambda server: _below("servers", _with_headers({"type": "http", "url": server.url}, server)),
    ),
    ChatClient.CURSOR: _Form(
        "Cursor",
        "Put this into .cursor/mcp.json of your project (or ~/.cursor/mcp.json for all):",
        _servers,
        _servers_at("url"),
    ),
    ChatClient.CODEX: _Form("Codex", "Add this to ~/.codex/config.toml:", _codex_command, _codex_address),
    ChatClient.GEMINI: _Form(
        "Gemini CLI", "Put this into ~/.gemini/settings.json:", _servers, _servers_at("httpUrl")
    ),
    ChatClient.QWEN: _Form(
        "Qwen Code", "Put this into ~/.qwen/settings.json:", _servers, _servers_at("httpUrl")
    ),
    ChatClient.OPENCODE: _Form(
        "opencode", "Put this into ~/.config/opencode/opencode.json:", _opencode_command, _opencode_address
    ),
    ChatClient.ZED: _Form(
        "Zed",
        "Put this into Zed's settings (“zed: open settings file” in the command palette):",
        lambda server: _below("context_servers", _started(server)),
        lambda server: _below("context_servers", _with_headers({"url": server.url}, server)),
    ),
    ChatClient.WINDSURF: _Form(
        "Windsurf", "Put this into ~/.codeium/windsurf/mcp_config.json:", _servers, _servers_at("serverUrl")
    ),
    ChatClient.LM_STUDIO: _Form(
        "LM Studio",
        "Put this into mcp.json (Program → Install → Edit mcp.json):",
        _servers,
        _servers_at("url"),
    ),
    ChatClient.GOOSE: _Form(
        "goose", "Add this to ~/.config/goose/config.yaml:", _goose_command, _goose_address
    ),
    ChatClient.OPEN_WEBUI: _Form(
        "Open WebUI",
        "Add a connection of the type “MCP (Streamable HTTP)” under Admin Settings → External Tools:",
        None,
        _open_webui_address,
    ),
}
