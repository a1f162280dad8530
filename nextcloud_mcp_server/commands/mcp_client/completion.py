"""What a shell may complete: names of servers, tools, resources and prompts.

The shell waits for it, so a server has little time.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from nextcloud_mcp_server.bridge.catalog import Catalog
from nextcloud_mcp_server.bridge.connection import Connection
from nextcloud_mcp_server.bridge.servers import listed_tools
from nextcloud_mcp_server.commands.mcp_client.session import Choice, connected, server_of

_SECONDS: Final = 5.0


def servers(choice: Choice, start: str) -> list[str]:
    """Return the names of servers that begin with a text."""
    found = choice.configuration(quiet=True)
    return [server.id for server in found.servers if server.id.startswith(start) and not server.disabled]


def tools(choice: Choice, server: str, start: str) -> list[str]:
    """Return the names of the tools of a server that begin with a text."""

    async def names(connection: Connection) -> list[str]:
        return [tool.name for tool in await listed_tools(connection)]

    return _asked(choice, server, start, names)


def resources(choice: Choice, server: str, start: str) -> list[str]:
    """Return the URIs of the resources and templates of a server that begin with a text."""

    async def names(connection: Connection) -> list[str]:
        catalog = Catalog()
        return [one.uri for one in await catalog.resources(connection)] + [
            one.uri_template for one in await catalog.templates(connection)
        ]

    return _asked(choice, server, start, names)


def prompts(choice: Choice, server: str, start: str) -> list[str]:
    """Return the names of the prompts of a server that begin with a text."""

    async def names(connection: Connection) -> list[str]:
        return [prompt.name for prompt in await connection.list_prompts()]

    return _asked(choice, server, start, names)


def _asked(
    choice: Choice, name: str, start: str, names: Callable[[Connection], Awaitable[list[str]]]
) -> list[str]:
    """Ask a server; nothing is completed where that fails, since a shell shows no reason."""

    async def ask() -> list[str]:
        server = server_of(choice.configuration(quiet=True), name)
        with anyio.move_on_after(_SECONDS):
            async with connected(choice, server) as connection:
                return await names(connection)
        return []

    try:
        return [one for one in anyio.run(ask) if one.startswith(start)]
    except Exception:  # noqa: BLE001 - whatever a server does, the line that the user types stays as it is
        return []
