"""All configured servers at once: connects them side by side, and keeps those that could not be connected as failed."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import anyio
import httpx2
import mcp_types as types
from anyio.abc import TaskGroup, TaskStatus

from nextcloud_mcp_server.bridge import naming
from nextcloud_mcp_server.bridge.catalog import Catalog
from nextcloud_mcp_server.bridge.configuration import Configuration, Server
from nextcloud_mcp_server.bridge.configuration_values import suggestion
from nextcloud_mcp_server.bridge.connection import Connection, connect
from nextcloud_mcp_server.bridge.connection_faults import from_group, sentence_of
from nextcloud_mcp_server.bridge.link import Handlers
from nextcloud_mcp_server.errors import NextcloudMcpError, ServerUnknown, ToolUnknown, TransportFailed

logger = logging.getLogger(__name__)


class State(StrEnum):
    """Whether a server can be used."""

    DISCONNECTED = "Disconnected"
    CONNECTING = "Connecting"
    CONNECTED = "Connected"
    FAILED = "Failed"
    DISABLED = "Disabled"


SIGNS: Final[Mapping[State, str]] = {
    State.CONNECTED: "●",
    State.CONNECTING: "◐",
    State.DISCONNECTED: "○",
    State.FAILED: "○",
    State.DISABLED: "○",
}


@dataclass(slots=True)
class Entry:
    """A configured server and its connection, if there is one."""

    server: Server
    state: State = State.DISCONNECTED
    #: Why it failed.
    reason: str = ""
    failure: Exception | None = None
    connection: Connection | None = None
    tools: list[types.Tool] = field(default_factory=list[types.Tool])
    catalog: Catalog = field(default_factory=Catalog)
    leave: anyio.Event = field(default_factory=anyio.Event)
    left: anyio.Event = field(default_factory=anyio.Event)


#: Makes what a server may ask or tell.
MakeHandlers = Callable[[Server], Handlers]
#: Makes what authorizes the requests to a server.
MakeAuth = Callable[[Server], httpx2.Auth | None]


class Servers:
    """The servers of a configuration; create it with `opened_servers`."""

    def __init__(
        self,
        configuration: Configuration,
        tasks: TaskGroup,
        make_handlers: MakeHandlers,
        make_auth: MakeAuth,
    ) -> None:
        self.configuration = configuration
        self.entries: dict[str, Entry] = {
            server.id: Entry(server, State.DISABLED if server.disabled else State.DISCONNECTED)
            for server in configuration.servers
        }
        self._tasks = tasks
        self._make_handlers = make_handlers
        self._make_auth = make_auth

    async def connect_all(self) -> None:
        """Connect every server that is not disabled; one that fails is reported and left."""
        async with anyio.create_task_group() as group:
            for entry in self.entries.values():
                if entry.state is State.DISCONNECTED:
                    group.start_soon(self._try_to_connect, entry)

    async def connected(self, name: str) -> Connection:
        """Return the connection to a server, which is opened if it is not there.

        Raises:
            ServerUnknown: There is no such server.
            BridgeError: It cannot be connected.
        """
        entry = self.entry(name)
        if entry.state is State.DISABLED:
            raise TransportFailed(f'The server "{name}" is disabled in the configuration.')
        if entry.connection is None:
            await self._connect(entry)
        assert entry.connection is not None  # noqa: S101 - it was opened, or an exception was raised
        return entry.connection

    async def disconnect(self, name: str) -> None:
        """End the connection to a server."""
        entry = self.entry(name)
        if entry.connection is not None:
            entry.leave.set()
            await entry.left.wait()

    async def reconnect(self, name: str) -> Connection:
        """End the connection to a server, and open another one."""
        await self.disconnect(name)
        return await self.connected(name)

    async def refresh_tools(self, name: str) -> list[types.Tool]:
        """List the tools of a server again."""
        entry = self.entry(name)
        connection = await self.connected(name)
        entry.tools = await listed_tools(connection)
        return entry.tools

    def entry(self, name: str) -> Entry:
        """Return a server by its name.

        Raises:
            ServerUnknown: There is none; the text names those that are there.
        """
        if (entry := self.entries.get(name)) is not None:
            return entry
        known = ", ".join(self.entries) or "none"
        meant = suggestion(name, self.entries)
        raise ServerUnknown(
            f"MCP server not found: {name}{meant if meant != '.' else '.'} Configured: {known}."
        )

    def names_of_tools(self) -> Iterable[tuple[Entry, types.Tool, str]]:
        """Yield every tool with the name that tells it apart: with one server its own, else `<server>__<tool>`."""
        used = [entry for entry in self.entries.values() if entry.state is not State.DISABLED]
        for entry in used:
            for tool in entry.tools:
                name = tool.name if len(used) == 1 else naming.join(entry.server.id, "name", tool.name)
                yield entry, tool, name

    async def _try_to_connect(self, entry: Entry) -> None:
        try:
            await self._connect(entry)
        except NextcloudMcpError as error:
            logger.warning("Failed to connect to MCP server %s: %s", entry.server.id, error)

    async def _connect(self, entry: Entry) -> None:
        entry.state = State.CONNECTING
        entry.leave, entry.left = anyio.Event(), anyio.Event()
        try:
            await self._tasks.start(self._hold, entry)
        except Exception as error:  # whatever failed, the other servers go on
            cause = from_group(error)
            entry.failure = cause if isinstance(cause, Exception) else error
            entry.state = State.FAILED
            known = isinstance(cause, NextcloudMcpError)
            entry.reason = str(cause) if known else sentence_of(entry.failure)
            raise (cause if known else TransportFailed(entry.reason)) from error

    async def _hold(self, entry: Entry, *, task_status: TaskStatus[None]) -> None:
        server = entry.server
        started = False
        try:
            async with connect(server, self._handlers(entry), self._make_auth(server)) as connection:
                if server.tools_enabled and connection.capabilities.tools is not None:
                    entry.tools = await listed_tools(connection)
                entry.connection, entry.state, entry.reason = connection, State.CONNECTED, ""
                started = True
                task_status.started()
                await entry.leave.wait()
        except Exception as error:  # raised again unless the connection was in use
            if not started:
                raise
            # The end of a connection that was in use is no failure of the others.
            logger.warning("The MCP server %s ended: %s", server.id, from_group(error))
        finally:
            entry.connection = None
            entry.left.set()
            if entry.state is State.CONNECTED:
                entry.state = State.DISCONNECTED

    def _handlers(self, entry: Entry) -> Handlers:
        made = self._make_handlers(entry.server)
        other = made.notification

        async def notified(notification: types.ServerNotification) -> None:
            await entry.catalog.notified(notification)
            if other is not None:
                await other(notification)

        return Handlers(
            elicitation=made.elicitation,
            sampling=made.sampling,
            sampling_capabilities=made.sampling_capabilities,
            notification=notified,
            diagnostic=made.diagnostic,
            extensions=made.extensions,
            client_info=made.client_info,
        )


@asynccontextmanager
async def opened_servers(
    configuration: Configuration,
    make_handlers: MakeHandlers = lambda _: Handlers(),
    make_auth: MakeAuth = lambda _: None,
) -> AsyncGenerator[Servers]:
    """Yield the servers of a configuration, none of which is connected yet; all are closed at the end."""
    try:
        async with anyio.create_task_group() as tasks:
            servers = Servers(configuration, tasks, make_handlers, make_auth)
            try:
                yield servers
            finally:
                for entry in servers.entries.values():
                    entry.leave.set()
    except BaseExceptionGroup as group:
        error = from_group(group)
        raise error from error.__cause__


async def listed_tools(connection: Connection) -> list[types.Tool]:
    """List the tools of a server, each name once: of two with one name only the first can be called."""
    tools: dict[str, types.Tool] = {}
    for tool in await connection.list_tools():
        if tool.name in tools:
            logger.warning("The MCP server %s lists two tools of one name.", connection.server.id)
        else:
            tools[tool.name] = tool
    return list(tools.values())


def find_tool(entry: Entry, name: str) -> types.Tool:
    """Return a tool of a server.

    Raises:
        ToolUnknown: The server lists none of that name.
    """
    for tool in entry.tools:
        if tool.name == name:
            return tool
    meant = suggestion(name, [tool.name for tool in entry.tools])
    raise ToolUnknown(f"MCP tool not found: server={entry.server.id}, tool={name}{meant}")
