"""Tasks: a long call is answered with a task, for which the client asks until the task has ended.

Who decides that a call becomes a task differs. With the extension of 2026-07-28 the server does ("Capability
Negotiation": "The server is the sole decider"): a call that is still at work after `task_runner.GRACE_SECONDS`
becomes one, and a faster one is answered itself. In 2025-11-25 the client does, with `task` in the call ("Creating
Tasks").

Until the work begins, a call is as every other: consent is asked for and waited for in the request itself
("Task Creation": a server "SHOULD resolve all MRTR exchanges synchronously").

Sources: specification/draft/tasks.md of modelcontextprotocol/ext-tasks, and 2025-11-25, basic/utilities/tasks.
"""

import secrets
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, cast

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver.server import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, ElicitResult, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import MissingScope, StorageError
from nextcloud_mcp_server.protocol import task_wire, wire
from nextcloud_mcp_server.protocol.task_runner import RunningCall, TaskEnd, TaskRunner, tell_end
from nextcloud_mcp_server.storage.task_records import (
    LIFETIME,
    MOST_RESTARTS,
    MOST_RUNNING,
    SIGN_IN_ENDED,
    Began,
    Task,
    TaskOwner,
    TaskStatus,
)

#: The shortest lifetime that a client of 2025-11-25 may ask for: it must be able to fetch the result.
SHORTEST: Final = timedelta(minutes=1)
#: A call with longer arguments is not started again: they would be stored for as long as its result.
LONGEST_ARGUMENTS: Final = 16_384
#: How often `tasks/result` looks whether the task has ended.
RESULT_SECONDS: Final = 1.0

TOO_MANY: Final = (
    f"{MOST_RUNNING} tasks of this user are at work, which is the most. Wait until one has ended, or cancel one; then "
    "call the tool again."
)
LOST: Final = (
    "The server stopped while it worked on this, and a part may be done. Read first what was to be changed; then call "
    "the tool again for the rest."
)
LOST_AGAIN: Final = (
    "The server stopped each time it worked on this, and does not start it again. Ask for less: the server may not be "
    "able to do all of it."
)
_NOT_FOUND: Final = "Task not found"
_TASK_METHODS: Final = frozenset({"tasks/get", "tasks/result"})
_VERSIONS: Final = frozenset(MODERN_PROTOCOL_VERSIONS) | wire.TASK_VERSIONS

_chain: ContextVar[CallNext | None] = ContextVar("_chain", default=None)


class TaskParams(RequestParams):
    """The parameters of `tasks/get`, `tasks/cancel` and `tasks/result`."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of `tasks/update`: the answers by the keys of `inputRequests`."""

    input_responses: dict[str, Any]


class Tasks(Extension):
    """Makes tasks of long calls, and answers what clients ask about them."""

    identifier = wire.TASKS_EXTENSION

    def __init__(
        self,
        runner: TaskRunner,
        caller: Callable[[ServerRequestContext[Any, Any]], Caller],
        *,
        tools: Mapping[str, bool],
        permits: Callable[[ServerRequestContext[Any, Any], str], bool],
        scopes: Mapping[str, frozenset[str]] | None,
    ) -> None:
        """Create it for the long tools; for each of them whether its call may be started again.

        `scopes` are what the user's permission must cover for each; None where no permissions are stored.
        """
        self.runner = runner
        #: Completes the answers that the SDK does not see; the server sets it.
        self.stamp: Callable[[dict[str, Any]], dict[str, Any]] = dict
        self._caller = caller
        self._tools = tools
        self._permits = permits
        self._scopes = scopes

    def methods(self) -> list[MethodBinding]:
        """Bind the methods, each for the versions that have it; nothing lists tasks."""
        modern = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding("tasks/get", TaskParams, self._get, _VERSIONS),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, _VERSIONS),
            MethodBinding("tasks/update", UpdateParams, self._update, modern),
            MethodBinding("tasks/result", TaskParams, self._result, wire.TASK_VERSIONS),
        ]

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Run a call that may become a task, and say what this server can; other requests pass."""
        if ctx.method == "tools/call" and self.runner.is_ready:
            return await self._call(ctx, call_next)
        if ctx.method in _TASK_METHODS:
            token = _chain.set(call_next)
            try:
                return await call_next(ctx)
            finally:
                _chain.reset(token)
        result = await call_next(ctx)
        if ctx.method == "initialize":
            return wire.advertise_tasks(result)
        if ctx.method == "tools/list" and ctx.protocol_version in wire.TASK_VERSIONS:
            return self._list(result)
        return result

    async def _call(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        params = ctx.params or {}
        form, tool, asked = wire.task_form(ctx), str(params.get("name")), params.get("task")
        if form is wire.TaskForm.CORE and isinstance(asked, Mapping):
            ttl = cast("Mapping[str, Any]", asked).get("ttl")
            lifetime = task_wire.lifetime(ttl, longest=LIFETIME, shortest=SHORTEST)
            return await self._called_as_task(ctx, call_next, tool, lifetime)
        if form is wire.TaskForm.EXTENSION and tool in self._tools:
            return await self._called(ctx, call_next, tool)
        return await call_next(ctx)

    async def _called(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, tool: str
    ) -> HandlerResult:
        """Answer a call of the extension: with its result, or after a while with a task."""
        owner = self._owner(ctx)
        if self.runner.count(owner.principal) >= MOST_RUNNING:
            return self._refusal(TOO_MANY)
        call = self.runner.start(ctx, call_next)
        try:
            await call.work.begun.wait()
            with anyio.move_on_after(self.runner.grace_seconds):
                await call.done.wait()
            task = None if call.done.is_set() else await self._created(ctx, call, tool, LIFETIME)
            if task is not None:
                self.runner.detach(call, task)
                return self.stamp(task_wire.created(task))
            # The user has too many tasks in other processes, or nothing can be stored: the client waits, as others do.
            await call.done.wait()
            return call.outcome()
        except MissingScope as error:
            return self._refusal(str(error))
        finally:
            if call.task is None:
                self._leave(call)

    async def _called_as_task(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, tool: str, lifetime: timedelta
    ) -> HandlerResult:
        """Answer a call of 2025-11-25 with a task; with an error where it does not come to that.

        A question for consent is such an error: the client answers it, and calls again.

        Raises:
            MCPError: The tool runs as no task, the user has too many, or the call itself ended in it.
        """
        if tool not in self._tools:
            # "Tool-Level Negotiation": -32601 for a tool without `execution.taskSupport`.
            raise MCPError(METHOD_NOT_FOUND, "This tool does not run as a task: call it without 'task'.")
        owner = self._owner(ctx)
        if self.runner.count(owner.principal) >= MOST_RUNNING:
            raise MCPError(INVALID_PARAMS, TOO_MANY)
        call = self.runner.start(ctx, call_next)
        try:
            await call.work.begun.wait()
            if call.is_ended or call.error is not None:
                call.outcome()
            task = await self._created(ctx, call, tool, lifetime)
            if task is None:
                raise MCPError(INVALID_PARAMS, TOO_MANY)
            self.runner.detach(call, task)
            return {"task": task_wire.of_core(task)}
        except MissingScope as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        finally:
            if call.task is None:
                self._leave(call)

    def _leave(self, call: RunningCall) -> None:
        """End a call whose request was answered, or is not waited for any more."""
        if not call.done.is_set():
            call.stop()
        self.runner.release(call)

    def _refusal(self, sentence: str) -> dict[str, Any]:
        content = [{"type": "text", "text": sentence}]
        return self.stamp({"content": content, "isError": True, "resultType": "complete"})

    async def _created(
        self, ctx: ServerRequestContext[Any, Any], call: RunningCall, tool: str, lifetime: timedelta
    ) -> Task | None:
        """Store a new task; None if the user has too many, or it cannot be stored.

        "A server MUST NOT return CreateTaskResult until the task is durably created" ("Task Creation").

        Raises:
            MissingScope: The permission or the sign-in with which the work began has ended.
        """
        arguments = cast("Mapping[str, Any]", (ctx.params or {}).get("arguments") or {})
        kept = task_wire.written(arguments) if self._tools[tool] else None
        if kept is not None and len(kept) > LONGEST_ARGUMENTS:
            kept = None
        try:
            rows = await self.runner.rows()
            task = await rows.create(
                self._owner(ctx),
                secrets.token_hex(16),
                began=self._began(ctx, call, tool),
                tool=tool,
                arguments=kept,
                lifetime=lifetime,
                lease=self.runner.lease,
            )
            if task is None or not call.is_ended:
                return task
            await rows.cancel(task.owner, task.id)
        except StorageError:
            return None
        raise MissingScope(SIGN_IN_ENDED)

    def _began(self, ctx: ServerRequestContext[Any, Any], call: RunningCall, tool: str) -> Began | None:
        """Return what a call began its work with.

        None where no permissions are stored, and of a call that was refused before: it has nothing of the user's
        Nextcloud.
        """
        if self._scopes is None or call.work.credential_id is None:
            return None
        return Began(call.work.credential_id, self._scopes[tool], self._caller(ctx).sign_in)

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        task = await self._found(ctx, params.task_id)
        return (
            task_wire.of_core(task)
            if ctx.protocol_version in wire.TASK_VERSIONS
            else task_wire.detailed(task)
        )

    async def _result(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        """Return the result when the task has ended: the server "MUST block the response" until then."""
        while not (task := await self._found(ctx, params.task_id)).status.final:  # noqa: ASYNC110 - in any process
            await anyio.sleep(RESULT_SECONDS)
        return task_wire.result_of_core(task)

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> HandlerResult:
        """Store the answers to the open question; the others are ignored, as the specification says."""
        task = await self._found(ctx, params.task_id)
        asked = task_wire.read(task) if task.status is TaskStatus.INPUT_REQUIRED else {}
        answers = {
            key: _action(params.input_responses[key]) for key in asked if key in params.input_responses
        }
        if answers:
            await (await self.runner.rows()).answer(task.owner, task.id, task_wire.written(answers))
            self.runner.wake()
        return {}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        """Stop the work of a task; in 2025-11-25 an ended one is an error ("Task Cancellation")."""
        task = await self._found(ctx, params.task_id)
        cancelled = await (await self.runner.rows()).cancel(task.owner, task.id)
        self.runner.wake()
        if ctx.protocol_version not in wire.TASK_VERSIONS:
            return {}
        if not cancelled:
            raise MCPError(INVALID_PARAMS, "Cannot cancel task: it has ended")
        return task_wire.of_core(await self._found(ctx, params.task_id))

    async def _found(self, ctx: ServerRequestContext[Any, Any], task_id: str) -> Task:
        """Return the caller's own task, after the end of one whose process is gone.

        Raises:
            MCPError: It is unknown, another user's or client's, or the token does not cover its tool: all the same.
        """
        if ctx.protocol_version not in wire.TASK_VERSIONS:
            require_client_extension(ctx, self.identifier)
        rows = await self.runner.rows()
        owner = self._owner(ctx)
        task = await rows.find(owner, task_id)
        if task is not None and task.is_lost and not self.runner.holds(task.id):
            await self._rescue(ctx, task)
            task = await rows.find(owner, task_id)
        if task is None or not self._permits(ctx, task.tool):
            raise MCPError(INVALID_PARAMS, _NOT_FOUND)
        return task

    async def _rescue(self, ctx: ServerRequestContext[Any, Any], task: Task) -> None:
        """Start a lost task again if its tool only reads, with the access of the client that asks; else fail it.

        One that was started so often that its own work may be what ends the processes fails, too.
        """
        rows, chain = await self.runner.rows(), _chain.get()
        sentence = LOST if task.restarts < MOST_RESTARTS else LOST_AGAIN
        again = sentence is LOST and task.arguments is not None and self.runner.is_ready
        if again and self.runner.count(task.owner.principal) >= MOST_RUNNING:
            # It waits until another task of this user has ended.
            return
        if not self._permits(ctx, task.tool) or not await rows.take(task, self.runner.lease):
            return
        if chain is None or not again:
            await rows.finish(
                task,
                self.runner.lease,
                TaskStatus.FAILED,
                outcome=task_wire.failed(sentence),
                message=sentence,
            )
            tell_end(task.tool, TaskEnd.LOST)
            return
        meta = cast("Mapping[str, Any]", (ctx.params or {}).get("_meta") or {})
        params = {
            "name": task.tool,
            "arguments": task_wire.arguments_of(task),
            "_meta": {name: value for name, value in meta.items() if name != "progressToken"},
        }
        call = self.runner.start(replace(ctx, method="tools/call", params=params), chain)
        self.runner.detach(call, task)

    def _owner(self, ctx: ServerRequestContext[Any, Any]) -> TaskOwner:
        caller = self._caller(ctx)
        return TaskOwner(caller.principal, caller.client_id)

    def _list(self, result: HandlerResult) -> HandlerResult:
        """Say of the long tools that they may run as a task ("Tool-Level Negotiation")."""
        if not isinstance(result, dict):
            return result
        tools = cast("list[dict[str, Any]]", result["tools"])
        execution = {"execution": {"taskSupport": "optional"}}
        return {
            **result,
            "tools": [{**tool, **(execution if tool["name"] in self._tools else {})} for tool in tools],
        }


def _action(answer: object) -> dict[str, str]:
    """Return the action of an answer to a question with a URL, which has no content.

    Raises:
        MCPError: It is no answer to an elicitation.
    """
    try:
        return {"action": ElicitResult.model_validate(answer, by_name=False).action}
    except ValidationError:
        raise MCPError(INVALID_PARAMS, "An input response is no answer to an elicitation") from None
