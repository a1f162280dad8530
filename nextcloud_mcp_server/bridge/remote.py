"""One remote server behind the bridge: connects when it is needed, and again after the server went away."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import anyio
from anyio.abc import TaskStatus
from mcp.client._transport import TransportStreams  # the type of every transport of the SDK
from mcp.shared.dispatcher import CallOptions, DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, RequestId

from nextcloud_mcp_server.bridge.envelope import Agreement, Envelope, Hello, Message, agree, offered

#: Requests that change nothing: they are sent once more after a connection was lost.
_REPEATABLE = (
    "tools/list",
    "resources/",
    "prompts/",
    "completion/",
    "ping",
    "server/discover",
    "tasks/get",
    "tasks/list",
    "tasks/result",
)
#: A shorter failure than this is not tried again at once: every call would start a process that ends.
_PAUSE_SECONDS = 1.0
#: What the SDK says to all calls of a connection that ended.
_CLOSED: Final = "Connection closed"
#: How long a server may take until it has answered the handshake; a sign-in in the browser is part of it.
START_SECONDS = 600.0


class Way(Protocol):
    """The transport of one remote server."""

    @property
    def session_lost(self) -> bool:
        """Whether the server has forgotten the session, and so has not begun a call."""
        ...

    @property
    def fault(self) -> str:
        """Why the transport ended, as a sentence; empty if it does not know."""
        ...

    def fault_of(self, error: MCPError) -> str:
        """Return what failed, for an error that stands in for an answer which never came; else nothing."""
        ...

    def open(self) -> AbstractAsyncContextManager[TransportStreams]:
        """Open a new connection."""
        ...


#: Prints a line for the user.
Say = Callable[[str], None]
OnRequest = Callable[["Remote", str, Message], Awaitable[Message]]
OnNotification = Callable[["Remote", str, Message | None], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Peer:
    """What all remote servers of a bridge share: how the chat client described itself, and who hears of them."""

    hello: Hello
    acts: bool
    on_request: OnRequest
    on_notification: OnNotification
    on_connected: Callable[["Remote"], Coroutine[Any, Any, None]]
    say: Say


@dataclass(slots=True)
class _Session:
    dispatcher: JSONRPCDispatcher
    envelope: Envelope
    ended: anyio.Event


class Remote:
    """A remote server under its name in the configuration."""

    def __init__(
        self,
        name: str,
        way: Way,
        peer: Peer,
        *,
        hidden: frozenset[str] = frozenset(),
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.name = name
        self._way = way
        self._peer = peer
        self._hidden = hidden
        self._start_seconds = start_seconds
        self._session: _Session | None = None
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        self._dropped = anyio.Event()
        self._failed_at: float | None = None
        self.failure = ""
        #: What was agreed last; kept while the server is away, so that calls can still be routed.
        self.agreement: Agreement | None = None

    @property
    def envelope(self) -> Envelope | None:
        """How requests are written for the present connection."""
        return self._session.envelope if self._session else None

    async def connected(self) -> Agreement:
        """Wait until the server is connected, and connect it if it is not.

        Raises:
            MCPError: It cannot be reached; the message says why.
        """
        session = await self._connect()
        return session.envelope.agreement

    async def request(
        self, method: str, params: Mapping[str, Any] | None, *, request_id: RequestId | None = None
    ) -> Message:
        """Send one request and return its raw result.

        Raises:
            MCPError: The server answered with an error, or went away.
        """
        for is_last in (False, True):
            session = await self._connect()
            written, options = session.envelope.write(method, params)
            if request_id is not None:
                options["request_id"] = request_id
            # `elicitation/track` and held calls end when the server ends them.
            try:
                return await session.dispatcher.send_raw_request(method, written, options)
            except MCPError as error:
                lost = self._way.session_lost
                if not (lost or _is_cut_off(error)):
                    raise self._explained(error) from None
                if lost or error.error.message.startswith(_CLOSED):
                    # The call is woken before the end of the connection is noticed, and must not go into it once more.
                    # In a session that the server has forgotten, it was not begun.
                    session.ended.set()
                    if self._session is session:
                        self._session = None
                if is_last or not (lost or method.startswith(_REPEATABLE)):
                    raise self._gone(error) from None
        raise AssertionError("unreachable")

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification if the server is connected."""
        if self._session is not None and not self._session.ended.is_set():
            agreement = self._session.envelope.agreement
            options: CallOptions = {"headers": {"mcp-protocol-version": agreement.version}}
            await self._session.dispatcher.notify(method, params, options)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Connect whenever the server is needed and not connected, until cancelled."""
        task_status.started()
        while True:
            await self._wanted.wait()
            try:
                await self._serve()
            except Exception as error:  # noqa: BLE001 - any transport, any server: the next call tries again
                self._fail(error)
            self._drop()

    async def _connect(self) -> _Session:
        if self._wanted.is_set() and self._settled.is_set():
            if self._session is not None and not self._session.ended.is_set():
                return self._session
            # The lost connection is being closed.
            await self._dropped.wait()
        now = anyio.current_time()
        if self._failed_at is not None and now - self._failed_at < _PAUSE_SECONDS:
            raise MCPError(CONNECTION_CLOSED, self.failure)
        if not self._wanted.is_set():
            self._settled, self._dropped = anyio.Event(), anyio.Event()
            self._wanted.set()
        await self._settled.wait()
        if self._session is None:
            raise MCPError(CONNECTION_CLOSED, self.failure or f"The server “{self.name}” went away.")
        return self._session

    async def _serve(self) -> None:
        async with self._way.open() as (read, write), anyio.create_task_group() as group:
            dispatcher = JSONRPCDispatcher(read, write)
            ended = anyio.Event()
            await group.start(self._listen, dispatcher, ended)
            capabilities = offered(self._peer.hello, acts=self._peer.acts)
            with anyio.fail_after(self._start_seconds):
                agreement = await agree(dispatcher, self._peer.hello, capabilities, acts=self._peer.acts)
            self.agreement = agreement = agreement.without(self._hidden)
            self._session = _Session(dispatcher, Envelope(agreement, self._peer.hello, capabilities), ended)
            self._failed_at, self.failure = None, ""
            self._settled.set()
            group.start_soon(self._peer.on_connected, self)
            await ended.wait()
            group.cancel_scope.cancel()

    async def _listen(
        self,
        dispatcher: JSONRPCDispatcher,
        ended: anyio.Event,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await dispatcher.run(self._on_request, self._on_notification, task_status=task_status)
        finally:
            ended.set()

    async def _on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> Message:
        del context
        return await self._peer.on_request(self, method, dict(params or {}))

    async def _on_notification(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> None:
        del context
        # The dispatcher has applied it already, to a request whose id the chat client does not know.
        if method != "notifications/cancelled":
            await self._peer.on_notification(self, method, None if params is None else dict(params))

    def _fail(self, error: BaseException) -> None:
        self._failed_at = anyio.current_time()
        self.failure = f"The server “{self.name}” cannot be used: {self._way.fault or reason(error)}"
        self._peer.say(self.failure)

    def _drop(self) -> None:
        self._session = None
        self._wanted = anyio.Event()
        self._settled.set()
        self._dropped.set()

    def _gone(self, error: MCPError) -> MCPError:
        why = self._way.fault or self.failure or error.error.message
        return MCPError(
            CONNECTION_CLOSED,
            f"The server “{self.name}” went away during this call ({why.rstrip('.')}). "
            "It is connected again with the next call: check what was done, then call again.",
        )

    def _explained(self, error: MCPError) -> MCPError:
        """Word an error that stands in for an answer; one of the server stays as it is."""
        fault = self._way.fault_of(error)
        if not fault and error.code == PARSE_ERROR and error.error.message.startswith("Failed to parse"):
            # The SDK quotes the answer, which may be long.
            limit = error.error.message.partition(": ")[2]
            fault = limit if "of more than" in limit else "It sent something that is not JSON-RPC."
        return MCPError(error.code, f"The server “{self.name}” failed: {fault}") if fault else error


def _is_cut_off(error: MCPError) -> bool:
    """Tell an error that the SDK made up for a lost connection from one of a server, which may use the same code."""
    made_up = error.error.message.startswith((_CLOSED, "SSE stream ended"))
    return error.code == CONNECTION_CLOSED and error.error.data is None and made_up


def reason(error: BaseException) -> str:
    """Return the first cause of an error of several tasks, as one sentence."""
    if isinstance(error, BaseExceptionGroup):
        return reason(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    if isinstance(error, MCPError):
        ended = error.code == CONNECTION_CLOSED and error.error.message == _CLOSED
        return "it ended before it answered." if ended else error.error.message
    if isinstance(error, TimeoutError):
        return "it did not answer in time."
    if isinstance(error, FileNotFoundError):
        return f"the command {error.filename} was not found."
    text = " ".join(str(error).split())[:300].rstrip(".")
    return f"{text or type(error).__name__}."
