"""The Python SDK before 2026-07-28, which can show a page; also used behind mcp-remote."""

from contextlib import asynccontextmanager
from typing import Any

import httpx
from lines import Opened, play, refused, say, text_of
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError


class Sdk1:
    """A session."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self._session.list_tools()).tools]

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            result = await self._session.call_tool(tool, arguments)
        except McpError as error:
            return refused(error)
        return {"text": text_of(result.content), "error": result.isError}

    async def read(self, uri: str) -> str:
        return text_of((await self._session.read_resource(uri)).contents)

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        messages = (await self._session.get_prompt(name, arguments)).messages
        return text_of([message.content for message in messages])


async def elicit(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
    say(event="asked", url=params.url, message=params.message)
    return types.ElicitResult(action="accept")


@asynccontextmanager
async def streams(plan: dict[str, Any]) -> Any:
    if isinstance(plan["server"], list):
        command, *arguments = plan["server"]
        server = StdioServerParameters(command=command, args=arguments, env=plan["env"])
        async with stdio_client(server) as (read, write):
            yield read, write
    else:
        async with (
            httpx.AsyncClient(headers=plan["headers"], timeout=60) as http,
            streamable_http_client(plan["server"], http_client=http) as (read, write, _),
        ):
            yield read, write


@asynccontextmanager
async def opened(plan: dict[str, Any]) -> Opened:
    async with (
        streams(plan) as (read, write),
        ClientSession(read, write, elicitation_callback=elicit) as session,
    ):
        started = await session.initialize()
        say(event="open", version=started.protocolVersion)
        yield Sdk1(session)


play(opened)
