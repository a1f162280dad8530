"""A user of the demo."""

from dataclasses import dataclass, field
from typing import Any

import httpx2
from anyio.abc import TaskGroup

from nextcloud_mcp_server.demo.answers import fields, result_of
from nextcloud_mcp_server.demo.dialect import Ask, Dialect
from nextcloud_mcp_server.demo.page_narrator import PageNarrator
from nextcloud_mcp_server.demo.wire_client import Message, WireClient
from nextcloud_mcp_server.errors import NotAsPromised
from nextcloud_mcp_server.sandbox.person import Person

NOTES = "nc_notes_list_notes"


@dataclass(slots=True)
class Member:
    """A user, with a browser and a client."""

    name: str
    uid: str
    person: Person
    pages: PageNarrator
    dialect: Dialect
    http: httpx2.AsyncClient
    group: TaskGroup
    notes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _client: WireClient | None = None

    @property
    def client(self) -> WireClient:
        """The client, once it has a token."""
        if self._client is None:
            raise NotAsPromised(f"{self.name}'s client has no token yet.")
        return self._client

    async def connect(self, mcp_url: str, token: str) -> None:
        """Connect the client to the server with this token."""
        self.http.headers["Authorization"] = f"Bearer {token}"
        self._client = self.dialect.client(self.http, mcp_url)
        await self._client.open()
        await self.group.start(self.dialect.attend, self._client)

    async def send(self, tool: str, arguments: Message, more: Message | None = None) -> Message:
        """Call a tool and return the response of any kind."""
        return await self.client.request("tools/call", {"name": tool, "arguments": arguments, **(more or {})})

    async def ask_for_notes(self) -> Ask | list[dict[str, Any]]:
        """Request the notes; return them, or the server's question."""
        answer = await self.send(NOTES, {})
        ask = self.dialect.asks(answer)
        return list(fields(result_of(answer))["notes"]) if ask is None else ask

    async def wait_for(self, ask: Ask, tool: str, arguments: Message) -> Message:
        """Wait for the end of the consent request; return the result of the waiting call."""

        async def again(more: Message) -> Message:
            return await self.send(tool, arguments, more)

        return fields(result_of(await self.dialect.finish(self.client, ask, again)))
