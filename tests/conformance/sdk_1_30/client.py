"""Plays the journey with version 1.30 of the SDK, in an environment of its own; prints what it meets.

Reads from the command line, as JSON: `server` (a URL or a command), `headers`, `env`, `elicitation`
(whether it has a callback), `tool` and `rounds` (how often it is called at most).
Every line it prints is one JSON object.
"""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError


def say(**fields: object) -> None:
    """Tell the test."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def elicit(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Say what is asked during a call, and that the person will go there."""
    say(event="asked", how="request", url=params.url)
    return types.ElicitResult(action="accept")


async def listen(message: object) -> None:
    """Say which notices arrive."""
    if isinstance(message, types.ServerNotification):
        say(event="notice", method=message.root.method)


@asynccontextmanager
async def connected(plan: dict[str, Any]) -> AsyncGenerator[tuple[Any, Any]]:
    """Open the transport that the plan names."""
    if isinstance(plan["server"], list):
        command, *arguments = plan["server"]
        server = StdioServerParameters(command=command, args=arguments, env=plan["env"])
        async with stdio_client(server) as streams:
            yield streams
    else:
        async with (
            httpx.AsyncClient(headers=plan["headers"], timeout=60) as http,
            streamable_http_client(plan["server"], http_client=http) as (read, write, _),
        ):
            yield read, write


async def call(session: ClientSession, tool: str) -> bool:
    """Call the tool once; tell whether it went through."""
    try:
        result = await session.call_tool(tool, {})
    except McpError as error:
        say(event="asked", how=error.error.code, url=error.error.data["elicitations"][0]["url"])
        return False
    text = "".join(getattr(block, "text", "") for block in result.content)
    if result.isError:
        say(event="asked", how="text", url=text.split()[-1])
        return False
    say(event="result", text=text)
    return True


async def main() -> None:
    """Connect, and call until the call goes through."""
    plan = json.loads(sys.argv[1])
    callback = elicit if plan["elicitation"] else None
    async with (
        connected(plan) as (read, write),
        ClientSession(read, write, elicitation_callback=callback, message_handler=listen) as session,
    ):
        opened = await session.initialize()
        tools = await session.list_tools()
        say(event="open", version=opened.protocolVersion, tools=[tool.name for tool in tools.tools])
        for _ in range(plan["rounds"]):
            if await call(session, plan["tool"]):
                break


anyio.run(main)
