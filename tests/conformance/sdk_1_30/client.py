"""A client with version 1.30 of the SDK, in an environment of its own; prints every event.

Reads from the command line, as JSON: `server` (a URL or a command), `headers`, `env`, `elicitation` (whether it has a
callback), `tool` with `arguments` and `rounds` (the maximum number of calls), and `oauth` (the `client_id` and
`redirect_uri` of a public client, and the `token` it starts with or null; null where `headers` are sufficient). Every
line it prints is one JSON object; after an `authorize` it reads the URL of the callback from standard input.
"""

import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.auth import OAuthClientProvider
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp.shared.exceptions import McpError


def say(**fields: object) -> None:
    """Write an event for the test."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def elicit(_: object, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Write the question asked during a call, and accept it."""
    say(event="asked", how="request", url=params.url)
    return types.ElicitResult(action="accept")


async def listen(message: object) -> None:
    """Write the notifications that arrive."""
    if isinstance(message, types.ServerNotification):
        say(event="notice", method=message.root.method)


class Kept:
    """The storage of a manually registered client, and its tokens."""

    def __init__(self, client_id: str, redirect_uri: str, token: dict[str, str] | None) -> None:
        self.described = {
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "none",
        }
        self._client = OAuthClientInformationFull(client_id=client_id, **self.described)
        self._tokens = None if token is None else OAuthToken(**token)

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull:
        return self._client

    async def set_client_info(self, _: OAuthClientInformationFull) -> None:
        say(event="registered")


async def go(url: str) -> None:
    """Write where the user has to sign in for a token."""
    say(event="authorize", url=url)


async def finish_callback() -> tuple[str, str | None]:
    """Read the URL of the callback."""
    answer = parse_qs(urlsplit(await anyio.to_thread.run_sync(sys.stdin.readline)).query)
    return answer["code"][0].strip(), answer["state"][0].strip()


def provider(plan: dict[str, Any]) -> OAuthClientProvider | None:
    """Return what fetches tokens."""
    if plan["oauth"] is None:
        return None
    kept = Kept(**plan["oauth"])
    described = OAuthClientMetadata(**kept.described)
    return OAuthClientProvider(
        plan["server"], described, kept, redirect_handler=go, callback_handler=finish_callback
    )


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
            httpx.AsyncClient(headers=plan["headers"], auth=provider(plan), timeout=60) as http,
            streamable_http_client(plan["server"], http_client=http) as (read, write, _),
        ):
            yield read, write


async def call(session: ClientSession, tool: str, arguments: dict[str, Any]) -> bool:
    """Call the tool once; return whether it succeeded."""
    try:
        result = await session.call_tool(tool, arguments)
    except McpError as error:
        say(event="asked", how=error.error.code, url=error.error.data["elicitations"][0]["url"])
        return False
    text = "".join(getattr(block, "text", "") for block in result.content)
    if result.isError:
        say(event="asked", how="text", url=re.findall(r"^https?://\S+$", text, re.MULTILINE)[0])
        return False
    say(event="result", text=text)
    return True


async def main() -> None:
    """Connect, and call until the call succeeds."""
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
            if await call(session, plan["tool"], plan["arguments"]):
                break


anyio.run(main)
