"""Tasks over HTTP, at the network: the headers of requests, and a connection that fails meanwhile."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.connection import connect
from nextcloud_mcp_server.bridge.link import Handlers
from nextcloud_mcp_server.bridge.task_client import TaskClient
from nextcloud_mcp_server.bridge.tasks import Task
from nextcloud_mcp_server.errors import TransportFailed

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"
SERVER = Server(id="test", transport="http", url=URL)
EXTENSION = "io.modelcontextprotocol/tasks"
STATE = {
    "taskId": "a-1",
    "status": "working",
    "createdAt": "2026-11-30T10:30:00Z",
    "lastUpdatedAt": "2026-11-30T10:30:00Z",
    "ttlMs": None,
    "pollIntervalMs": 20,
}
RESULT = {"content": [{"type": "text", "text": "Done."}]}


class Silence(httpx2.AsyncByteStream):
    """A stream of events that stays open."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b": open\n\n"
        await anyio.sleep_forever()


class Remote(httpx2.AsyncBaseTransport):
    """A server of 2026-07-28 over Streamable HTTP whose tasks take two polls; the first of them may fail."""

    def __init__(self, failures: int = 0) -> None:
        self.requests: list[tuple[str, dict[str, Any], httpx2.Headers]] = []
        self.failures = failures
        self.polls = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body: dict[str, Any] = json.loads(await request.aread())
        method = body["method"]
        self.requests.append((method, body.get("params", {}), request.headers))
        if method == "subscriptions/listen":
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Silence())
        if method == "tasks/get" and self.failures:
            self.failures -= 1
            raise httpx2.ConnectError("no way")
        return httpx2.Response(
            200,
            json={
                "jsonrpc": "2.0",
                "id": body["id"],
                "result": {"resultType": "complete", **self.result(method)},
            },
        )

    def result(self, method: str) -> dict[str, Any]:
        if method == "server/discover":
            return {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": {EXTENSION: {}}},
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "remote", "version": "1"}},
            }
        if method == "tools/list":
            return {
                "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
                "ttlMs": 0,
                "cacheScope": "private",
            }
        if method == "tools/call":
            return {**STATE, "resultType": "task"}
        if method == "tasks/get":
            self.polls += 1
            return {**STATE, "status": "completed", "result": RESULT} if self.polls > 1 else STATE
        return {}


async def play(remote: Remote) -> str:
    """Call a tool, and return the text of its result."""

    async def report(task: Task, seconds: float) -> None:
        del task, seconds

    tasks = TaskClient(report)
    handlers = Handlers(extensions=[tasks.extension])
    async with connect(SERVER, handlers, transport=remote) as connection:
        tasks.use(connection)
        found = await connection.call_tool("t", {})
    return found.model_dump()["content"][0]["text"]


async def test_each_request_about_a_task_names_it_in_its_headers() -> None:
    remote = Remote()

    assert await play(remote) == "Done."

    about = [(method, headers) for method, _, headers in remote.requests if method.startswith("tasks/")]
    assert [method for method, _ in about] == ["tasks/get", "tasks/get"]
    assert {headers["mcp-name"] for _, headers in about} == {"a-1"}
    assert {headers["mcp-method"] for _, headers in about} == {"tasks/get"}
    declared = [
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
        for _, params, _ in remote.requests
    ]
    assert all(EXTENSION in one for one in declared)
    listens = [params for method, params, _ in remote.requests if method == "subscriptions/listen"]
    assert [one["notifications"] for one in listens] == [{"taskIds": ["a-1"]}]


async def test_a_connection_that_fails_for_a_moment_does_not_end_the_wait() -> None:
    remote = Remote(failures=2)

    assert await play(remote) == "Done."


async def test_a_connection_that_fails_for_long_ends_the_wait_and_the_task() -> None:
    remote = Remote(failures=100)

    with pytest.raises(TransportFailed, match="could not be reached"):
        await play(remote)

    methods = [method for method, _, _ in remote.requests]
    assert methods.count("tasks/get") == 4
    assert methods[-1] == "tasks/cancel"
