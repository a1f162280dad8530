"""A client's tool call that waits for its user."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from mcp.client.client import Client
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

LIST = "nc_notes_list_notes"


@dataclass
class Call:
    """A client's tool call, and the link that the user is shown meanwhile."""

    asked: anyio.Event = field(default_factory=anyio.Event)
    answered: anyio.Event = field(default_factory=anyio.Event)
    url: str = ""
    result: CallToolResult | None = None

    async def open(self, _: object, params: ElicitRequestParams) -> ElicitResult:
        self.url = str(getattr(params, "url", ""))
        self.asked.set()
        return ElicitResult(action="accept")

    async def text(self) -> str:
        """Wait for the result, which needs no further action."""
        with anyio.fail_after(60):
            await self.answered.wait()
        assert self.result is not None
        return "".join(getattr(block, "text", "") for block in self.result.content)


class Connect(Protocol):
    """Connects a chat client that shows links."""

    def __call__(self, call: Call) -> AbstractAsyncContextManager[Client]: ...


@asynccontextmanager
async def calling(connect: Connect) -> AsyncGenerator[Call]:
    """Let a client call a tool; the block runs when the client shows the link."""
    call = Call()
    async with connect(call) as client, anyio.create_task_group() as group:

        async def ask() -> None:
            call.result = await client.call_tool(LIST, {})
            call.answered.set()

        group.start_soon(ask)
        with anyio.fail_after(60):
            await call.asked.wait()
        yield call
