"""A connection to one configured server, which is opened anew when the server forgets or ends it.

The SDK's client speaks the protocol: it negotiates the version, sends its header with every request, keeps the session,
resumes event streams and answers what the server asks. Here is what it lacks: a session that is lost is begun again, an
error of the network costs one call instead of the connection, and every failure is one sentence.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

import anyio
import httpx2
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import Client, MCPError
from mcp.client import ClientSession
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from pydantic import RootModel

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.bridge.connection_faults import explained, from_group, version_refused
from nextcloud_mcp_server.bridge.link import SPOKEN_VERSIONS, Handlers, Link, Wire, opened
from nextcloud_mcp_server.errors import AnswerLate, BridgeError

#: The most bytes of one message.
MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
#: A server that lists pages without an end is not asked for more.
_MOST_PAGES: Final = 1000
_CLOSE_SECONDS: Final = 8.0

_Result = TypeVar("_Result")
_Page = TypeVar("_Page", bound=types.PaginatedResult)
_Page_co = TypeVar("_Page_co", bound=types.PaginatedResult, covariant=True)


class _Fetch(Protocol[_Page_co]):
    def __call__(self, client: Client, cursor: str | None) -> Awaitable[_Page_co]: ...


class _Raw(RootModel[dict[str, Any]]):
    """A result of which nothing is read here."""


class _AboutTask(types.Request[dict[str, Any], str]):
    """A request about a task, whose id is sent as a header, too."""

    name_param = "taskId"


class Connection:
    """A server that can be called; create it with `connect`."""

    def __init__(
        self,
        server: Server,
        handlers: Handlers,
        *,
        wire: Wire,
        tasks: TaskGroup,
    ) -> None:
        self.server = server
        self._handlers = handlers
        self._wire = wire
        self._tasks = tasks
        self._link: Link | None = None
        self._opening = anyio.Lock()

    @property
    def client(self) -> Client:
        """The SDK's client of the present session."""
        assert self._link is not None  # noqa: S101 - `connect` opens it before anyone has the object
        return self._link.client

    @property
    def session(self) -> ClientSession:
        """The SDK's present session."""
        return self.client.session

    @property
    def protocol_version(self) -> str:
        """The negotiated version."""
        return self.client.protocol_version

    @property
    def server_info(self) -> types.Implementation | None:
        """The server's name and version, if it told them."""
        return self.client.server_info

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """What the server offers."""
        return self.client.server_capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model, if there are any."""
        return self.client.instructions

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        progress: ProgressFnT | None = None,
        timeout_seconds: float | None = None,
        meta: types.RequestParamsMeta | None = None,
    ) -> types.CallToolResult:
        """Call a tool; what the server asks meanwhile goes to the handlers.

        Raises:
            MCPError: The server answered with an error, which the caller may understand.
            BridgeError: There is no answer, or none that is MCP.
        """
        seconds = timeout_seconds or self.server.tool_timeout_seconds
        return await self.run(
            "tools/call",
            lambda client: client.call_tool(
                name, arguments, read_timeout_seconds=seconds, progress_callback=progress, meta=meta
            ),
        )

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        progress: ProgressFnT | None = None,
        timeout_seconds: float | None = None,
    ) -> dict[str, Any]:
        """Send any request, and return its result as it came, also one with `resultType: input_required`.

        Raises:
            MCPError: The server answered with an error; `error.data` is whole.
            BridgeError: There is no answer, or none that is MCP.
        """
        kind = _AboutTask if "taskId" in (params or {}) else types.Request[dict[str, Any], str]
        message = kind(method=method, params=dict(params or {}))
        usual = self.server.tool_timeout_seconds if method == "tools/call" else self.server.timeout_seconds
        result = await self.run(
            method,
            lambda client: client.session.send_request(
                message, _Raw, timeout_seconds or usual, progress_callback=progress
            ),
        )
        return result.root

    async def call_as_task(
        self, params: Mapping[str, Any], *, timeout_seconds: float | None = None
    ) -> dict[str, Any]:
        """Call a tool with `task` in its parameters (2025-11-25), and return the raw answer.

        Raises:
            MCPError: The server answered with an error.
            BridgeError: There is no answer, or none that is MCP.
        """

        async def send(client: Client) -> dict[str, Any]:
            # `send_request` takes only the answers of a call, and not a task in place of one.
            session = client.session
            data: dict[str, Any] = {"method": "tools/call", "params": dict(params)}
            options: CallOptions = {"timeout": timeout_seconds or self.server.tool_timeout_seconds}
            session._stamp(data, options)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            dispatcher = session._dispatcher  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            return await dispatcher.send_raw_request(data["method"], data["params"], options)

        return await self.run("tools/call", send)

    async def list_tools(self) -> list[types.Tool]:
        """List all tools, following pages to their end."""
        pages = await self._pages("tools/list", lambda client, cursor: client.list_tools(cursor=cursor))
        return [tool for page in pages for tool in page.tools]

    async def list_resources(self) -> list[types.Resource]:
        """List all resources."""
        pages = await self._pages(
            "resources/list", lambda client, cursor: client.list_resources(cursor=cursor)
        )
        return [resource for page in pages for resource in page.resources]

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        """List all templates of resources."""
        pages = await self._pages(
            "resources/templates/list", lambda client, cursor: client.list_resource_templates(cursor=cursor)
        )
        return [template for page in pages for template in page.resource_templates]

    async def list_prompts(self) -> list[types.Prompt]:
        """List all prompts."""
        pages = await self._pages("prompts/list", lambda client, cursor: client.list_prompts(cursor=cursor))
        return [prompt for page in pages for prompt in page.prompts]

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource."""
        return await self.run("resources/read", lambda client: client.read_resource(uri))

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> types.GetPromptResult:
        """Fetch a prompt."""
        return await self.run("prompts/get", lambda client: client.get_prompt(name, arguments))

    async def ping(self) -> None:
        """Wait for any answer: a ping, or `server/discover` where the protocol has no ping any more."""
        modern = self.session.discover_result is not None
        await self.request("server/discover" if modern else "ping")

    async def run(self, method: str, action: Callable[[Client], Awaitable[_Result]]) -> _Result:
        """Run an action on the present session; a session that the server has forgotten is begun anew, once.

        Raises:
            MCPError: The server answered with an error.
            BridgeError: There is no answer, or none that is MCP.
        """
        link = await self._current()
        try:
            return await action(link.client)
        except MCPError as error:
            if not link.session_lost:
                raise explained(error, link, method) from error
        except Exception as error:  # whatever the SDK raises becomes one sentence, or is raised again
            raise explained(error, link, method) from error
        # The server did not look at the request, so it is safe to repeat.
        await self._leave(link)
        link = await self._current()
        try:
            return await action(link.client)
        except Exception as error:  # the same
            raise explained(error, link, method) from error

    async def _pages(self, method: str, fetch: _Fetch[_Page]) -> list[_Page]:
        pages: list[_Page] = []
        cursor: str | None = None
        while len(pages) < _MOST_PAGES:
            page = await self.run(method, partial(fetch, cursor=cursor))
            pages.append(page)
            if page.next_cursor is None or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
        return pages

    async def _current(self) -> Link:
        """Return the present link; opens one if there is none, or if it has ended."""
        async with self._opening:
            if self._link is None or self._link.is_over:
                # What is left of an ended one, such as its process, goes first.
                await self.aclose()
                self._link = await self._open()
            return self._link

    async def _open(self) -> Link:
        seconds = self.server.timeout_seconds
        try:
            with anyio.fail_after(seconds) as limit, _patience(self._wire.auth, limit):
                return await self._tasks.start(self._hold)
        except TimeoutError:
            raise AnswerLate(
                f"MCP timeout: server={self.server.id}, method=initialize: it did not answer within {seconds:g} s."
            ) from None

    async def _hold(self, *, task_status: anyio.abc.TaskStatus[Link]) -> None:
        """Open a link and keep it until it is told to close, or ends by itself."""
        link = Link(self.server)
        handed_over = False
        try:
            with link.scope:
                async with opened(link, self._handlers, self._wire) as client:
                    if client.protocol_version not in SPOKEN_VERSIONS:
                        raise version_refused(client.protocol_version)  # noqa: TRY301 - the link must be closed first
                    link.client = client
                    handed_over = True
                    task_status.started(link)
                    await link.close.wait()
        except Exception as error:  # of the transport's tasks: a link that was in use only ends
            reason = explained(from_group(error), link, "initialize")
            if not handed_over:
                raise reason from error
            if isinstance(reason, BridgeError):
                link.fail(reason)
        finally:
            link.ended.set()
        if not handed_over and link.fault is not None:
            raise link.fault

    async def _leave(self, link: Link) -> None:
        link.close.set()
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await link.ended.wait()
        link.scope.cancel()

    async def open(self) -> None:
        """Open the first session."""
        await self._current()

    async def aclose(self) -> None:
        """End the session and, over stdio, the process."""
        if self._link is not None:
            await self._leave(self._link)


class _Patient(Protocol):
    """An authentication for which the user may have to do something."""

    def not_limiting_users(self, limit: anyio.CancelScope) -> AbstractContextManager[None]: ...


def _patience(auth: httpx2.Auth | None, limit: anyio.CancelScope) -> AbstractContextManager[None]:
    """Let a time limit for the server stand still while the user signs in."""
    patient = cast("_Patient | None", auth if hasattr(auth, "not_limiting_users") else None)
    return nullcontext() if patient is None else patient.not_limiting_users(limit)


@asynccontextmanager
async def connect(
    server: Server,
    handlers: Handlers | None = None,
    auth: httpx2.Auth | None = None,
    *,
    max_bytes: int = MAX_MESSAGE_BYTES,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> AsyncGenerator[Connection]:
    """Connect to a server, and close the connection when the block is left.

    Raises:
        BridgeError: It cannot be started or reached, wants an authorization, or speaks no version that we do.
    """
    try:
        async with anyio.create_task_group() as tasks:
            connection = Connection(
                server, handlers or Handlers(), wire=Wire(max_bytes, auth, transport), tasks=tasks
            )
            await connection.open()
            try:
                yield connection
            finally:
                await connection.aclose()
    except BaseExceptionGroup as group:
        error = from_group(group)
        raise error from error.__cause__
