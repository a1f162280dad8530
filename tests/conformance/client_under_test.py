"""The client of this project, as the official conformance runner starts it: with the URL of a server as argument.

It connects, lists the tools, and calls each of them once. A user who agrees plays the browser.
"""

import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import httpx2
from mcp import MCPError

from nextcloud_mcp_server.bridge.browser import Browser
from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.connection import connect
from nextcloud_mcp_server.bridge.oauth.http_auth import http_auth
from nextcloud_mcp_server.bridge.oauth.store import open_store
from nextcloud_mcp_server.errors import NextcloudMcpError

#: The document by which the runner's authorization server would know a client.
DOCUMENT = "https://conformance-test.local/client-metadata.json"
_SAMPLES: dict[str, Any] = {
    "string": "text",
    "number": 1,
    "integer": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


def main() -> None:
    """Play the scenario, and exit with 0 if the client got what it wanted."""
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with tempfile.TemporaryDirectory() as folder:
        try:
            anyio.run(play, sys.argv[-1], context, Path(folder))
        except (NextcloudMcpError, MCPError) as error:
            say(f"{type(error).__name__}: {error}")
            sys.exit(1)


async def play(url: str, context: dict[str, Any], folder: Path) -> None:
    """Connect to a server, and call its tools."""
    config = {
        "client_id": context.get("client_id"),
        "client_secret": context.get("client_secret"),
        "client_metadata_url": DOCUMENT,
    }
    server = Server.model_validate(
        {"id": "conformance", "transport": "http", "url": url, "oauth": "auto", "oauth_config": config}
    )
    store = open_store({"NEXTCLOUD_MCP_CLIENT_TOKEN_STORE": "file"}, folder)
    auth = http_auth(server, store, Browser(say, launch=visit))
    async with connect(server, auth=auth) as connection:
        for tool in await connection.list_tools():
            fields: dict[str, Any] = tool.input_schema.get("properties", {})
            arguments = {name: _SAMPLES.get(field.get("type", "string")) for name, field in fields.items()}
            say(f"{tool.name}: {await connection.call_tool(tool.name, arguments)}")


def visit(url: str) -> bool:
    """Open the authorization page as a browser whose user agrees: it follows the redirects to the callback."""
    Thread(target=partial(httpx2.get, url, follow_redirects=True, timeout=30), daemon=True).start()
    return True


def say(text: str) -> None:
    """Print for the log of the runner."""
    print(text, file=sys.stderr)  # noqa: T201 - a script


if __name__ == "__main__":
    main()
