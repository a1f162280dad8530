"""openai-agents' MCP servers with their defaults, including the time limit of five seconds."""

from contextlib import asynccontextmanager
from typing import Any

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from lines import Opened, play, refused, say, text_of


class OpenAiAgents:
    """A connected server."""

    def __init__(self, server: MCPServerStdio | MCPServerStreamableHttp) -> None:
        self._server = server

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self._server.list_tools()]

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            result = await self._server.call_tool(tool, arguments)
        except Exception as error:  # noqa: BLE001 - whatever it raises goes to the model as text
            return refused(error)
        failed = getattr(result, "is_error", None) or getattr(result, "isError", None)
        return {"text": text_of(result.content), "error": bool(failed)}

    async def read(self, uri: str) -> str:
        return text_of((await self._server.read_resource(uri)).contents)

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        messages = (await self._server.get_prompt(name, arguments)).messages
        return text_of([message.content for message in messages])


@asynccontextmanager
async def opened(plan: dict[str, Any]) -> Opened:
    if isinstance(plan["server"], list):
        command, *arguments = plan["server"]
        server = MCPServerStdio({"command": command, "args": arguments, "env": plan["env"]})
    else:
        server = MCPServerStreamableHttp({"url": plan["server"], "headers": plan["headers"]})
    async with server:
        say(event="open", version="")
        yield OpenAiAgents(server)


play(opened)
