"""langchain-mcp-adapters with `get_tools()`: a session per call, and over stdio a process."""

from contextlib import asynccontextmanager
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient
from lines import Opened, play, refused, say, text_of
from mcp.shared.exceptions import McpError


class LangChain:
    """The client, and the tools it has listed."""

    def __init__(self, client: MultiServerMCPClient) -> None:
        self._client = client
        self._tools: dict[str, Any] = {}

    async def tools(self) -> list[str]:
        self._tools = {tool.name: tool for tool in await self._client.get_tools()}
        return list(self._tools)

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        # As an agent calls it, so that the result is the message that the model gets.
        wanted = {"type": "tool_call", "id": "1", "name": tool, "args": arguments}
        try:
            message = await self._tools[tool].ainvoke(wanted)
        except McpError as error:
            return refused(error)
        return {"text": text_of(message.content), "error": message.status == "error"}

    async def read(self, uri: str) -> str:
        blobs = await self._client.get_resources("nextcloud", uris=uri)
        return "\n".join(blob.as_string() for blob in blobs)

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        messages = await self._client.get_prompt("nextcloud", name, arguments=arguments)
        return text_of([message.content for message in messages])


@asynccontextmanager
async def opened(plan: dict[str, Any]) -> Opened:
    if isinstance(plan["server"], list):
        command, *arguments = plan["server"]
        how = {"transport": "stdio", "command": command, "args": arguments, "env": plan["env"]}
    else:
        how = {"transport": "streamable_http", "url": plan["server"], "headers": plan["headers"]}
    say(event="open", version="")
    yield LangChain(MultiServerMCPClient({"nextcloud": how}))


play(opened)
