"""`client doctor`: looks at the configuration and at every server, and says what to do."""

from typing import Final, Literal

import anyio
import typer
from mcp import MCPError
from platformdirs import user_config_path

from nextcloud_mcp_server.bridge.configuration import Configuration, Server
from nextcloud_mcp_server.bridge.connection_faults import from_group, sentence_of
from nextcloud_mcp_server.bridge.servers import listed_tools
from nextcloud_mcp_server.commands.console import result, result_json
from nextcloud_mcp_server.commands.mcp_client.calling import timed_ping
from nextcloud_mcp_server.commands.mcp_client.session import FAILED, Choice, connected, server_of
from nextcloud_mcp_server.errors import NextcloudMcpError

Verdict = Literal["ok", "warn", "fail"]
Finding = tuple[Verdict, str, str]
_COLOURS: Final = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}


async def check(
    choice: Choice, configuration: Configuration, name: str | None, *, as_json: bool
) -> int | None:
    """Print a line for each finding; 1 if one of them is a failure."""
    findings: list[Finding] = []
    if name is None:
        findings += _look_at_configuration(configuration)
        servers = [server for server in configuration.servers if not server.disabled]
    else:
        servers = [server_of(configuration, name)]
    async with anyio.create_task_group() as group:
        for server in servers:
            group.start_soon(_look_at_server, choice, server, findings)
    if as_json:
        result_json([{"verdict": one[0], "topic": one[1], "text": one[2]} for one in findings], indent=2)
    else:
        for verdict, topic, text in findings:
            result(f"{typer.style(f'{verdict:<4}', fg=_COLOURS[verdict])}  {topic}: {text}")
    return FAILED if any(verdict == "fail" for verdict, _, _ in findings) else None


def _look_at_configuration(configuration: Configuration) -> list[Finding]:
    if configuration.off:
        return [("warn", "configuration", "--no-mcp or NEXTCLOUD_MCP_CLIENT_NO_MCP turns all servers off.")]
    found: list[Finding] = [("fail", "configuration", str(fault)) for fault in configuration.faults]
    if not configuration.servers and not found:
        folder = user_config_path("nextcloud-mcp-server", appauthor=False)
        found.append(("warn", "configuration", f"No server is configured: write {folder / 'settings.toml'}."))
    for server in configuration.servers:
        if server.disabled:
            found.append(("ok", server.id, "It is disabled."))
            continue
        if server.transport == "sse":
            sentence = "HTTP+SSE is deprecated: ask its operator for an address of Streamable HTTP."
            found.append(("warn", server.id, sentence))
        if server.url.startswith("http://") and not _is_local(server):
            sentence = "Its address is not encrypted: others on the network can read it and act in your name."
            found.append(("warn", server.id, sentence))
    return found


def _is_local(server: Server) -> bool:
    host = server.url.removeprefix("http://").partition("/")[0]
    return host.startswith(("127.", "localhost", "[::1]"))


async def _look_at_server(choice: Choice, server: Server, findings: list[Finding]) -> None:
    try:
        async with connected(choice, server) as connection:
            info = connection.server_info
            milliseconds = await timed_ping(connection)
            tools = len(await listed_tools(connection)) if connection.capabilities.tools is not None else 0
            sentence = (
                f"{info.name if info else 'A server'} speaks {connection.protocol_version} over "
                f"{server.transport}, lists {tools} tools, and answers in {milliseconds:.0f} ms."
            )
            findings.append(("ok", server.id, sentence))
    except (NextcloudMcpError, MCPError, ExceptionGroup) as error:
        cause = from_group(error)
        if isinstance(cause, NextcloudMcpError):
            findings.append(("fail", server.id, str(cause)))
        elif isinstance(cause, MCPError):
            findings.append(("fail", server.id, sentence_of(cause)))
        else:
            raise
