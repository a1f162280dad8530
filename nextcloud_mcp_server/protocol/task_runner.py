"""Runs calls apart from their requests, so that a call can go on after its request was answered.

A process leases its tasks, and learns with each renewal which of them it must stop and which the client answered. If
the process dies, its lease ends, and another process fails the task or starts it again.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from anyio.abc import TaskGroup
from mcp.server.context import CallNext, ServerRequestContext
from mcp_types import INTERNAL_ERROR

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.protocol import task_wire, wire
from nextcloud_mcp_server.protocol.hold import WAITING
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.work import Work, current
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.task_records import MOST_BYTES, SIGN_IN_ENDED, Lease, Task, TaskOwner
from nextcloud_mcp_server.telemetry import metrics

if TYPE_CHECKING:
    # The type only: SQLAlchemy is imported when the database is opened.
    from nextcloud_mcp_server.storage.tasks import TaskRepository

logger = logging.getLogger(__name__)

#: A call of the extension that ends so soon after its work began is answered itself.
GRACE_SECONDS: Final = 2.0
#: How often a process renews its leases, and so how long a cancellation at another replica takes.
RENEW_SECONDS: Final = 3.0
#: How long the others leave a task to its process after its last renewal.
LEASE: Final = timedelta(seconds=30)
#: A server that is stopped waits so long for its calls to end.
STOP_SECONDS: Final = 5.0
#: A database that cannot be used when a task ends is tried again after this time.
RETRY_SECONDS: Final = 2.0

_CUT_OFF: Final = (
    "The server is restarting, and this call was not finished. Send it again in a few seconds; if it was to change "
    "something, read first whether that is done already."
)
_TOO_LARGE: Final = "The result is larger than is stored for a task. Ask for less, or for a part."

Rows = Callable[[], Awaitable["TaskRepository"]]


class TaskEnd(StrEnum):
    """How a task ended, in the log and the metrics; the first four are those of a request."""

    OK = "ok"
    TOOL_ERROR = "tool error"
    ERROR = "error"
    #: The log has the reason.
    FAILED = "failed"
    #: Cancelled, deleted, or its permission has ended.
    STOPPED = "stopped"
    #: This process stops; another one goes on with it, or fails it.
    LEFT = "left"
    #: A change whose process was gone, or a reading that was started too often.
    LOST = "lost"


@dataclass(eq=False, slots=True)
class RunningCall:
    """One call: first of a request, then maybe of a task."""

    ctx: ServerRequestContext[Any, Any]
    call_next: CallNext
    work: Work = field(default_factory=Work)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)
    released: anyio.Event = field(default_factory=anyio.Event)
    answered: anyio.Event = field(default_factory=anyio.Event)
    result: dict[str, Any] | None = None
    error: Exception | None = None
    task: Task | None = None
    answers: str | None = None
    questions: int = 0
    noted: str | None = None
    began_at: float = field(default_factory=monotonic)
    is_ended: bool = False

    def stop(self) -> None:
        """End the call; what it cleans up is done in its own time."""
        self.scope.cancel()

    def outcome(self) -> dict[str, Any]:
        """Return the result, or raise the error, to answer the request itself."""
        if self.result is None:
            raise self.error or wire.MCPError(INTERNAL_ERROR, SIGN_IN_ENDED if self.is_ended else _CUT_OFF)
        return self.result


class TaskRunner:
    """The calls of one process that run apart from their requests."""

    def __init__(
        self,
        rows: Rows,
        pending: Pending,
        *,
        consent_seconds: float,
        renew_seconds: float = RENEW_SECONDS,
        lease: timedelta = LEASE,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self.rows = rows
        self.grace_seconds = grace_seconds
        self.lease = Lease(secrets.token_hex(8), lease)
        self._pending = pending
        self._consent_seconds = consent_seconds
        self.renew_seconds = renew_seconds
        self._calls = set[RunningCall]()
        self._running: dict[str, RunningCall] = {}
        self._group: TaskGroup | None = None
        self._ended = anyio.Event()
        self._wanted = anyio.Event()
        self._hint = anyio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether calls can run apart from their requests."""
        return self._group is not None

    def count(self, principal: Principal) -> int:
        """Return how many tasks of a user run in this process."""
        return sum(
            call.task is not None and call.task.owner.principal == principal
            for call in self._running.values()
        )

    def holds(self, task_id: str) -> bool:
        """Tell whether this process runs a task."""
        return task_id in self._running

    def start(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> RunningCall:
        """Start a call; it waits at its end until `release` or `detach`."""
        if self._group is None:
            raise RuntimeError("the task runner does not run")
        call = RunningCall(ctx, call_next)
        self._calls.add(call)
        self._group.start_soon(self._run, call)
        return call

    def release(self, call: RunningCall) -> None:
        """Leave a call to its request."""
        call.released.set()

    def detach(self, call: RunningCall, task: Task) -> None:
        """Make a call the work of a stored task: its end is stored, and its request has an answer."""
        call.task, call.work.is_detached = task, True
        self._running[task.id] = call
        call.released.set()
        self._wanted.set()

    async def end(self, meant: Callable[[ServerRequestContext[Any, Any]], bool]) -> None:
        """Cancel the tasks of this process whose request matches a predicate, and the calls that may become one."""
        for call in [each for each in self._calls if meant(each.ctx)]:
            call.is_ended = True
            call.stop()
            if call.task is None:
                continue
            try:
                await (await self.rows()).cancel(call.task.owner, call.task.id)
            except StorageError as error:
                logger.warning("%s A task that was stopped is left to its lease.", error)

    def wake(self) -> None:
        """Look at once for answers and cancellations of the tasks."""
        self._hint.set()

    async def run(self) -> None:
        """Run calls and renew the leases of their tasks, until `stop`."""
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                await self._renew_forever()
        finally:
            self._group = None
            self._ended.set()

    async def stop(self) -> None:
        """End all calls, and leave their tasks to other processes; the database must still be open."""
        if self._group is None:
            return
        had_tasks = bool(self._running)
        with anyio.move_on_after(STOP_SECONDS, shield=True):
            self._group.cancel_scope.cancel()
            await self._ended.wait()
            if had_tasks:
                try:
                    await (await self.rows()).release(self.lease)
                except StorageError as error:
                    logger.warning(
                        "%s The tasks of this process are left to others when its lease ends.", error
                    )

    async def _run(self, call: RunningCall) -> None:
        # Set in this task's own context, which the call shares.
        current.set(call.work)
        try:
            with call.scope:
                await self._attempt(call)
                await call.released.wait()
                while call.task is not None and _asks(call):
                    await self._ask_and_go_on(call, call.task)
            if call.task is not None and not call.scope.cancelled_caught:
                await self._store(call, call.task)
            elif call.task is not None:
                _tell(call, call.task, TaskEnd.STOPPED)
        except anyio.get_cancelled_exc_class():
            if call.task is not None:
                _tell(call, call.task, TaskEnd.LEFT)
            raise
        except Exception:  # a supervisor: one task must not end those of others
            logger.exception("the end of a task could not be stored")
            if call.task is not None:
                _tell(call, call.task, TaskEnd.FAILED)
        finally:
            self._calls.discard(call)
            call.done.set()
            call.work.begun.set()
            if call.task is not None:
                self._running.pop(call.task.id, None)

    async def _attempt(self, call: RunningCall) -> None:
        call.result = call.error = None
        try:
            call.result = cast("dict[str, Any]", await call.call_next(call.ctx))
        except Exception as error:  # noqa: BLE001 - raised where the request is answered, or stored
            call.error = error
        call.done.set()
        call.work.begun.set()

    async def _ask_and_go_on(self, call: RunningCall, task: Task) -> None:
        try:
            await self._ask(call, task)
        except StorageError as error:
            call.error = error
        else:
            await self._attempt(call)

    async def _ask(self, call: RunningCall, task: Task) -> None:
        """Wait until the client answered a question, or its consent request has ended; then go on with the answer.

        The consent page is enough: a client that never answers still gets the result after the consent.
        """
        result = call.result or {}
        state = cast("str | None", result.get("requestState"))
        asked = wire.retry(None, state)
        answer: Mapping[str, Any] | None = None
        requests = cast("Mapping[str, Any] | None", result.get("inputRequests"))
        if requests:
            call.questions += 1
            # A key is never used twice in a task ("Task Update Requests").
            key = f"{wire.INPUT_KEY}-{call.questions}"
            call.answers, call.answered = None, anyio.Event()
            written = task_wire.written({key: requests[wire.INPUT_KEY]})
            await (await self.rows()).ask(task, self.lease, written)
            answer = await self._answer(call, key, None if asked is None else asked.elicitation_id)
            await (await self.rows()).go_on(task, self.lease, WAITING)
        agreed = answer is None or answer.get("action") == "accept"
        if agreed and asked is not None:
            await self._pending.wait(asked.elicitation_id, seconds=self._consent_seconds)
        responses = {} if agreed else {"inputResponses": {wire.INPUT_KEY: answer}}
        left = {name: value for name, value in (call.ctx.params or {}).items() if name != "inputResponses"}
        call.ctx = replace(call.ctx, params={**left, "requestState": state, **responses})

    async def _answer(
        self, call: RunningCall, key: str, elicitation_id: str | None
    ) -> Mapping[str, Any] | None:
        """Return the client's answer; None if the consent request ended first."""

        async def ended(scope: anyio.CancelScope) -> None:
            if elicitation_id is not None:
                await self._pending.wait(elicitation_id, seconds=self._consent_seconds)
                scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(ended, group.cancel_scope)
            await call.answered.wait()
            group.cancel_scope.cancel()
        answers = {} if call.answers is None else task_wire.answers_of(call.answers)
        return cast("Mapping[str, Any] | None", answers.get(key))

    async def _store(self, call: RunningCall, task: Task) -> None:
        try:
            status, outcome = task_wire.outcome_of(call.result, call.error)
        except (TypeError, ValueError) as error:
            # A result that is no JSON would never be stored, and its task never end.
            call.error = error
            status, outcome = task_wire.outcome_of(None, error)
        if call.error is not None and not isinstance(call.error, wire.MCPError):
            logger.error("a task of %s failed", task.tool, exc_info=call.error)
        if len(outcome) > MOST_BYTES:
            call.error = wire.MCPError(INTERNAL_ERROR, _TOO_LARGE)
            status, outcome = task_wire.outcome_of(None, call.error)
        while True:
            try:
                kept = await (await self.rows()).finish(
                    task, self.lease, status, outcome=outcome, message=call.work.message
                )
            except StorageError as error:
                logger.warning("%s The result of a task is not stored yet; trying again.", error)
                await anyio.sleep(RETRY_SECONDS)
            else:
                _tell(call, task, _end_of(call) if kept else TaskEnd.STOPPED, size=len(outcome))
                return

    async def _renew_forever(self) -> None:
        while True:
            await self._wanted.wait()
            with anyio.move_on_after(self.renew_seconds):
                await self._hint.wait()
            self._hint = anyio.Event()
            calls = dict(self._running)
            if not calls:
                self._wanted = anyio.Event()
                continue
            try:
                await self._renew(calls)
            except Exception:  # a supervisor: a database that is busy once must not end the tasks
                logger.exception("the leases of tasks could not be renewed; trying again")

    async def _renew(self, calls: Mapping[str, RunningCall]) -> None:
        running: dict[str, tuple[TaskOwner, str | None]] = {}
        for task_id, call in calls.items():
            message = call.work.message if call.work.message != call.noted else None
            call.noted = call.work.message
            running[task_id] = cast("Task", call.task).owner, message
        held = await (await self.rows()).renew(self.lease, running)
        for task_id, call in calls.items():
            if task_id not in held:
                call.stop()
            elif (answers := held[task_id]) is not None and answers != call.answers:
                call.answers = answers
                call.answered.set()


def _asks(call: RunningCall) -> bool:
    return (
        call.error is None and call.result is not None and call.result.get("resultType") == "input_required"
    )


def _end_of(call: RunningCall) -> TaskEnd:
    if call.error is not None:
        return TaskEnd.ERROR if isinstance(call.error, wire.MCPError) else TaskEnd.FAILED
    return TaskEnd.TOOL_ERROR if (call.result or {}).get("isError") else TaskEnd.OK


def _tell(call: RunningCall, task: Task, end: TaskEnd, *, size: int = 0) -> None:
    tell_end(task.tool, end, seconds=monotonic() - call.began_at, size=size)


def tell_end(tool: str, end: TaskEnd, *, seconds: float = 0, size: int = 0) -> None:
    """Log and count how a task ended, with the bytes that are stored of it: no content, and nobody's id.

    The line has the request id of the call, if this process began the task.
    """
    metrics.TASKS.add(tool, end.value)
    fields = {"tool": tool, "status": end.value, "ms": round(seconds * 1000), "bytes": size}
    logger.info("task", extra=fields)
