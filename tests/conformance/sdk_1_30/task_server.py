"""A server with the experimental tasks of SDK 1.30: `python task_server.py stdio`, or `http`, which prints its port.

The SDK keeps the tasks, answers `tasks/*` and sends the notifications; here is only what the tools do.
"""

import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
from mcp import types
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

server: Server[Any] = Server("sdk-1-tasks", "1")
server.experimental.enable_tasks()

SUPPORT: dict[str, Any] = {
    "count": "required",
    "ask": "required",
    "break": "required",
    "report": "optional",
    "forever": "required",
    "now": "forbidden",
}


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    schema = {"type": "object"}
    return [
        types.Tool(name=name, inputSchema=schema, execution=types.ToolExecution(taskSupport=support))
        for name, support in SUPPORT.items()
    ]


def text(words: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], isError=is_error)


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> types.CallToolResult | types.CreateTaskResult:
    tasks = server.request_context.experimental
    if not tasks.is_task:
        return text(f"{name} at once.")

    async def work(task: ServerTaskContext) -> types.CallToolResult:
        if name == "forever":
            await anyio.sleep_forever()
        if name == "break":
            raise RuntimeError("out of memory")
        if name == "ask":
            schema = {"type": "object", "properties": {"color": {"type": "string"}}}
            answer = await task.elicit("Which color?", schema)
            return text(f"{answer.action} {answer.content}")
        for step in range(3):
            await task.update_status(f"Step {step}")
            await anyio.sleep(0.1)
        return text(f"{name} is done.", is_error=name == "report")

    return await tasks.run_task(work)


async def over_stdio() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def over_http() -> None:
    import uvicorn  # noqa: PLC0415 - only here
    from starlette.applications import Starlette  # noqa: PLC0415 - the same
    from starlette.routing import Mount  # noqa: PLC0415 - the same

    manager = StreamableHTTPSessionManager(app=server)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    app = Starlette(routes=[Mount("/mcp", app=manager.handle_request)], lifespan=lifespan)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - for the test
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "http":
        over_http()
    else:
        anyio.run(over_stdio)
