"""Tasks for the command line: calls a tool as a task, waits for it, and looks at tasks of a server.

Of the SDK are the declaration of the extension of 2026-07-28, its `resultType`, and what answers a server's questions.
It has no polling, and none of the methods of 2025-11-25.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.client import ClientExtension, NotificationBinding, ResultClaim
from mcp.client.extension import ClaimContext
from mcp.client.session import ClientRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from nextcloud_mcp_server.bridge import tasks
from nextcloud_mcp_server.bridge.connection import Connection
from nextcloud_mcp_server.bridge.envelope import TASKS_EXTENSION, Message, as_list, as_object, names_tasks
from nextcloud_mcp_server.bridge.task_watch import Line, Report, Watch
from nextcloud_mcp_server.bridge.tasks import Form, News, Task
from nextcloud_mcp_server.bridge.waiting import beside
from nextcloud_mcp_server.errors import (
    AnswerLate,
    AnswerUnreadable,
    ElicitationFailed,
    NextcloudMcpError,
    TaskFailed,
)

_InputRequest: Final = TypeAdapter[types.InputRequest](types.InputRequest)
#: A list of tasks is read no further.
_MOST_PAGES: Final = 100


class _Handle(types.Result):
    """A task in place of a result (2026-07-28); nothing else of it is read here."""

    model_config = ConfigDict(extra="allow")

    result_type: Literal["task"]


class _Notice(BaseModel):
    """What a server says about a task."""

    model_config = ConfigDict(extra="allow")


#: Finishes a call that became a task.
Finish = Callable[[Task], Awaitable[types.CallToolResult]]


class _Extension(ClientExtension):
    """Declares the extension, and hears the notifications of both forms."""

    identifier = TASKS_EXTENSION

    def __init__(self, finish: Finish, news: News) -> None:
        self._finish = finish
        self._news = news

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Take over calls that the server turns into tasks."""

        async def resolve(handle: _Handle, context: ClaimContext) -> types.CallToolResult:
            del context
            task = tasks.made(handle.model_dump(mode="json", by_alias=True))
            assert task is not None  # noqa: S101 - it has this resultType
            return await self._finish(task)

        return [ResultClaim(result_type="task", model=_Handle, resolve=resolve)]

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        """Hear of tasks."""

        async def heard(notice: _Notice) -> None:
            self._news.tell(notice.model_dump())

        return [
            NotificationBinding(method=method, params_type=_Notice, handler=heard) for method in tasks.NOTICES
        ]


class Detached(NextcloudMcpError):
    """A call became a task, for which its caller does not want to wait."""

    def __init__(self, task: Task) -> None:
        super().__init__(f"The call became the task {tasks.shown(task.id)}.")
        self.task = task


class TaskClient:
    """The tasks of one server: `extension` belongs into the handlers of its connection, which `use` names then."""

    def __init__(self, report: Report, *, waits: bool = True, seconds: float | None = None) -> None:
        self._report = report
        self._waits = waits
        self._seconds = seconds
        self._news = News()
        self.extension: ClientExtension = _Extension(self.finish, self._news)
        self._connection: Connection

    def use(self, connection: Connection) -> None:
        """Send requests over this connection."""
        self._connection = connection

    @property
    def form(self) -> Form:
        """The form that the version of the connection has."""
        modern = self._connection.protocol_version in MODERN_PROTOCOL_VERSIONS
        return Form.EXTENSION if modern else Form.CORE

    def offers(self, what: str) -> bool:
        """Tell whether the server declares a part of tasks (2025-11-25)."""
        capabilities = self._connection.capabilities.model_dump(mode="json", by_alias=True, exclude_none=True)
        if self.form is Form.EXTENSION:
            return what != "list" and names_tasks(capabilities)
        return tasks.offers(capabilities, what)

    async def call(
        self, name: str, arguments: Mapping[str, Any], ttl_seconds: float | None
    ) -> types.CallToolResult:
        """Call a tool as a task of 2025-11-25, and wait for its result.

        Raises:
            MCPError: The server answered with an error, or the call ended with one.
            BridgeError: The task failed, was cancelled, or took too long.
        """
        ttl = {} if ttl_seconds is None else {"ttl": round(ttl_seconds * 1000)}
        params = {"name": name, "arguments": dict(arguments), "task": ttl}
        answer = await self._connection.call_as_task(params, timeout_seconds=self._seconds)
        task = tasks.made(answer)
        # A server that does not know of tasks answers at once.
        found = self.result_of(answer) if task is None else await self.finish(task)
        if not found.is_error:
            await self._connection.run(
                "tools/call", lambda client: client.session.validate_tool_result(name, found)
            )
        return found

    async def finish(self, task: Task) -> types.CallToolResult:
        """Wait for a task that a call has become."""
        if not self._waits:
            raise Detached(task)
        return self.result_of(await self.wait(task, cancels=True))

    async def wait(self, task: Task, *, cancels: bool) -> Message:
        """Wait for a task; if the wait ends before it, the task is cancelled where `cancels` says so."""
        server = self._connection.server
        seconds = self._seconds or server.tool_timeout_seconds
        line = Line(
            self._ask,
            self._answer,
            self._news,
            report=self._report,
            listen=lambda task_id: beside(self._listen, task_id),
            can_cancel=self.offers("cancel"),
            cancels=cancels,
        )
        try:
            with anyio.fail_after(seconds):
                return await Watch(task, line).result()
        except TimeoutError:
            what = "and was cancelled" if cancels else "and goes on"
            raise AnswerLate(
                f"MCP timeout: server={server.id}, task={tasks.shown(task.id)}: it did not end within {seconds:g} s, "
                f"{what}."
            ) from None

    async def get(self, task_id: str) -> Task:
        """Ask for the state of a task.

        Raises:
            TaskFailed: The server does not have it.
        """
        try:
            return tasks.read(await self._ask("tasks/get", {"taskId": task_id}), self.form, of=task_id)
        except MCPError as error:
            if error.code != types.INVALID_PARAMS:
                raise
            raise TaskFailed(f"MCP task error: {tasks.shown(error.error.message)}") from error

    async def cancel(self, task_id: str) -> Task | None:
        """Cancel a task; return its state where the server says it at once."""
        answer = await self._ask("tasks/cancel", {"taskId": task_id})
        return tasks.read(answer, self.form, of=task_id) if self.form is Form.CORE else None

    async def list(self) -> Sequence[Task]:
        """List the tasks of a server of 2025-11-25."""
        found: dict[str, Task] = {}
        params: Message = {}
        for _ in range(_MOST_PAGES):
            page = await self._connection.request("tasks/list", params)
            for raw in as_list(page.get("tasks")):
                task = tasks.read(as_object(raw), Form.CORE)
                found[task.id] = task
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or params.get("cursor") == cursor:
                break
            params = {"cursor": cursor}
        return list(found.values())

    async def _ask(self, method: str, params: Message) -> Message:
        # It is answered when the task is over, so the wait itself has the limit.
        seconds = self._seconds or self._connection.server.tool_timeout_seconds
        return await self._connection.request(
            method, params, timeout_seconds=seconds if method == "tasks/result" else None
        )

    async def _answer(self, requests: Mapping[str, Message]) -> Message:
        """Answer what a task asks, by what answers the same question of a call."""
        session, responses = self._connection.session, Message()
        for key, raw in requests.items():
            try:
                request = _InputRequest.validate_python(raw, by_name=False)
            except ValidationError:
                raise AnswerUnreadable(
                    "MCP task error: the server asks for what the protocol does not have."
                ) from None
            context = ClientRequestContext(session=session, request_id=key)
            response = await session.dispatch_input_request(context, request)
            if isinstance(response, types.ErrorData):
                raise ElicitationFailed(
                    f"MCP elicitation error: the task asks for {request.method}, which is not answered here."
                )
            responses[key] = response.model_dump(mode="json", by_alias=True, exclude_none=True)
        return responses

    async def _listen(self, task_id: str) -> None:
        wanted = {"notifications": {"taskIds": [task_id]}}
        seconds = self._seconds or self._connection.server.tool_timeout_seconds
        try:
            await self._connection.request("subscriptions/listen", wanted, timeout_seconds=seconds)
        except (MCPError, NextcloudMcpError):
            # Servers need not send them.
            return

    def result_of(self, answer: Message) -> types.CallToolResult:
        """Read the result of a call.

        Raises:
            AnswerUnreadable: It is none.
        """
        try:
            return types.CallToolResult.model_validate(answer, by_name=False)
        except ValidationError:
            raise AnswerUnreadable(
                f'MCP task error: the server "{self._connection.server.id}" sent a result that is none of a call.'
            ) from None
