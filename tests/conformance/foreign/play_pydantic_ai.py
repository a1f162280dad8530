"""pydantic-ai's toolset for MCP as its documentation sets it up: without an elicitation handler."""

import json
from contextlib import asynccontextmanager
from typing import Any

from fastmcp.client.transports import StdioTransport
from lines import Opened, play, say, text_of
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.mcp import MCPToolset


class PydanticAi:
    """A connected toolset."""

    def __init__(self, toolset: MCPToolset[None]) -> None:
        self._toolset = toolset

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self._toolset.list_tools()]

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            result = await self._toolset.direct_call_tool(tool, arguments)
        except ModelRetry as told:
            # The text that the model reads.
            return {"text": told.message, "error": True}
        return {"text": as_model_reads(result), "error": False}

    async def read(self, uri: str) -> str:
        return text_of(await self._toolset.read_resource(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        messages = (await self._toolset.get_prompt(name, arguments)).messages
        return "\n".join(str(getattr(message.content, "content", "")) for message in messages)


def as_model_reads(result: object) -> str:
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)


@asynccontextmanager
async def opened(plan: dict[str, Any]) -> Opened:
    if isinstance(plan["server"], list):
        command, *arguments = plan["server"]
        toolset = MCPToolset(
            StdioTransport(command=command, args=arguments, env=plan["env"]),
            # The default of five seconds is too short where many tests run at once.
            init_timeout=60,
        )
    else:
        toolset = MCPToolset(plan["server"], headers=plan["headers"])
    async with toolset:
        say(event="open", version="")
        yield PydanticAi(toolset)


play(opened)
