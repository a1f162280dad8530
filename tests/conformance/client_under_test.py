"""The client of this project, as the official conformance runner starts it: `client|bridge URL`.

It connects, lists the tools, and calls them: as the scenario wants it (`MCP_CONFORMANCE_CONTEXT`), else each of them
once. A user who agrees fills in forms and plays the browser. `bridge` does the same from behind the bridge.
"""

import fcntl
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp.shared.memory import create_client_server_memory_streams

from nextcloud_mcp_server.bridge.browser import Browser
from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.connection import connect
from nextcloud_mcp_server.bridge.forwarding import Backend, Bridge, Options
from nextcloud_mcp_server.bridge.link import Handlers
from nextcloud_mcp_server.bridge.oauth.http_auth import http_auth
from nextcloud_mcp_server.bridge.oauth.store import open_store
from nextcloud_mcp_server.bridge.opening import Transport
from nextcloud_mcp_server.bridge.permissions import Decision
from nextcloud_mcp_server.commands.mcp_client.questions import Questions
from nextcloud_mcp_server.errors import NextcloudMcpError

#: The document by which the runner's authorization server would know a client.
DOCUMENT = "https://conformance-test.local/client-metadata.json"
#: The scenario `json-schema-2020-12-preservation`: the second tool takes the schema of the first.
SHOWN, ECHO = "json_schema_2020_12_tool", "json_schema_echo"
_SAMPLES: dict[str, Any] = {
    "string": "text",
    "number": 1,
    "integer": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


class Caller(Protocol):
    """What lists tools and calls them."""

    async def list_tools(self) -> list[types.Tool]: ...

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object: ...


class BehindBridge:
    """A chat client of the bridge."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_tools(self) -> list[types.Tool]:
        return (await self._client.list_tools()).tools

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        return await self._client.call_tool(name, arguments)


def main() -> None:
    """Play the scenario, and exit with 0 if the client got what it wanted."""
    if sys.argv[-2] not in ("client", "bridge"):
        sys.exit(2)
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with tempfile.TemporaryDirectory() as folder, one_at_a_time():
        try:
            anyio.run(play, sys.argv[-2], sys.argv[-1], context, Path(folder))
        except (NextcloudMcpError, MCPError) as error:
            say(f"{type(error).__name__}: {error}")
            sys.exit(1)


@contextmanager
def one_at_a_time() -> Generator[None]:
    """Wait for the other clients: the runner starts all scenarios at once, and the client's time limits are short."""
    with Path.home().joinpath("client-under-test.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


async def play(which: str, url: str, context: dict[str, Any], folder: Path) -> None:
    """Connect to a server, and call its tools."""
    config = {
        "client_id": context.get("client_id"),
        "client_secret": context.get("client_secret"),
        "client_metadata_url": DOCUMENT,
    }
    server = Server.model_validate(
        {"id": "conformance", "transport": "http", "url": url, "oauth": "auto", "oauth_config": config}
    )
    auth = http_auth(
        server,
        open_store({"NEXTCLOUD_MCP_CLIENT_TOKEN_STORE": "file"}, folder),
        Browser(say, launch=visit),
    )
    decision = Decision("Elicit(conformance)", "allow", "default")
    questions = Questions(server.id, decision, show_page, type_nothing, yes=True)
    if which == "bridge":
        async with behind_bridge(server, auth, questions) as client:
            await use(BehindBridge(client), context)
        return
    async with connect(server, Handlers(elicitation=questions.answer), auth=auth) as connection:
        await use(connection, context)


async def use(caller: Caller, context: dict[str, Any]) -> None:
    """Call the tools."""
    tools = {tool.name: tool for tool in await caller.list_tools()}
    calls = [(call["name"], call["arguments"]) for call in context.get("toolCalls", [])]
    if SHOWN in tools:
        calls = [(ECHO, {"schema": tools[SHOWN].input_schema})]
    for name, arguments in calls or [(tool.name, arguments_of(tool)) for tool in tools.values()]:
        say(f"{name}: {await caller.call_tool(name, arguments)}")


@asynccontextmanager
async def behind_bridge(
    server: Server, auth: httpx2.Auth | None, questions: Questions
) -> AsyncGenerator[Client]:
    """Start a bridge in this process, and a chat client of the era that the scenario is about."""
    backend = Backend(server.id, Transport(server, say, lambda: auth))
    mode = "auto" if os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "") >= "2026" else "legacy"
    async with (
        create_client_server_memory_streams() as (ours, theirs),
        anyio.create_task_group() as tasks,
    ):
        bridge = Bridge(theirs, [backend], Browser(say, launch=visit), Options(), say)
        tasks.start_soon(bridge.run)
        async with Client(given(ours), mode=mode, elicitation_callback=questions.answer) as client:
            yield client
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def given(streams: TransportStreams) -> AsyncGenerator[TransportStreams]:
    """Hand over streams that are open."""
    yield streams


def arguments_of(tool: types.Tool) -> dict[str, Any]:
    """Make up an argument for each field."""
    fields: dict[str, Any] = tool.input_schema.get("properties", {})
    return {name: _SAMPLES.get(field.get("type", "string")) for name, field in fields.items()}


def visit(url: str) -> bool:
    """Open the authorization page as a browser whose user agrees: it follows the redirects to the callback."""
    Thread(target=partial(httpx2.get, url, follow_redirects=True, timeout=30), daemon=True).start()
    return True


async def show_page(url: str, purpose: str) -> bool:
    """Open the page of an elicitation."""
    say(purpose)
    return visit(url)


async def type_nothing(prompt: str) -> str | None:
    """Answer each field of a form with its default."""
    say(prompt)
    return "yes\n" if "Confirm?" in prompt else "\n"


def say(text: str) -> None:
    """Print for the log of the runner."""
    print(text, file=sys.stderr)  # noqa: T201 - a script


if __name__ == "__main__":
    main()
