"""fastmcp's client, with an elicitation handler."""

from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from lines import Opened, play, refused, say, text_of
from mcp import MCPError


class FastMcp:
    """A connected client."""

    def __init__(self, client: Client[Any]) -> None:
        self._client = client

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self._client.list_tools()]

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            result = await self._client.call_tool(tool, arguments, raise_on_error=False)
        except MCPError as error:
            return refused(error)
        return {"text": text_of(result.content), "error": result.is_error}

    async def read(self, uri: str) -> str:
        return text_of(await self._client.read_resource(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        messages = (await self._client.get_prompt(name, arguments)).messages
        return text_of([message.content for message in messages])


async def elicit(message: str, response_type: object, params: Any, context: object) -> ElicitResult:
    say(event="asked", url=params.url, message=message)
    return ElicitResult(action="accept")


def transport(plan: dict[str, Any]) -> Any:
    if isinstance(plan["server"], list):
        command, *arguments = plan["server"]
        return StdioTransport(command=command, args=arguments, env=plan["env"])
    return StreamableHttpTransport(plan["server"], headers=plan["headers"])


@asynccontextmanager
async def opened(plan: dict[str, Any]) -> Opened:
    async with Client(transport(plan), elicitation_handler=elicit) as client:
        say(event="open", version=str(getattr(client, "protocol_version", "")))
        yield FastMcp(client)


play(opened)
