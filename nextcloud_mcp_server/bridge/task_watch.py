"""Waits for a task of a server: polls it, answers what the server asks meanwhile, and cancels it when nobody waits."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

from nextcloud_mcp_server.bridge import tasks
from nextcloud_mcp_server.bridge.envelope import Message, as_object
from nextcloud_mcp_server.bridge.tasks import Form, News, Status, Task
from nextcloud_mcp_server.errors import (
    AnswerLate,
    AnswerUnreadable,
    NextcloudMcpError,
    TaskFailed,
    TransportFailed,
)

logger = logging.getLogger(__name__)

#: Errors after which it is useless to ask for a task again.
_LASTING: Final = frozenset({INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, tasks.MISSING_CAPABILITY})
_MOST_FAILURES: Final = 3
_CANCEL_SECONDS: Final = 5.0
#: A server that asks for more than this in one task is not answered.
_MOST_INPUTS: Final = 50
#: After an answer a server goes on soon.
_SOON_SECONDS: Final = 0.25


class Ask(Protocol):
    """Sends a request to the server of a task."""

    def __call__(self, method: str, params: Message) -> Awaitable[Message]:
        """Return its raw result, or raise MCPError or BridgeError."""
        ...


#: Answers input requests of 2026-07-28, by their keys.
AnswerInputs = Callable[[Mapping[str, Message]], Awaitable[Message]]
#: Hears of the state of a task after each poll, with the seconds since the start.
Report = Callable[[Task, float], Awaitable[None]]
#: Asks a server of 2026-07-28 for notifications about a task while the block runs.
Listen = Callable[[str], AbstractAsyncContextManager[None]]


async def _no_report(task: Task, seconds: float) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Line:
    """How the server of a task is reached, and who answers it."""

    ask: Ask
    answer: AnswerInputs
    news: News
    report: Report = _no_report
    listen: Listen = lambda _: nullcontext()
    #: Whether the server declares that tasks can be cancelled.
    can_cancel: bool = True
    #: Whether a task that nobody waits for any more is cancelled.
    cancels: bool = True


@dataclass(slots=True)
class Watch:
    """The wait for one task."""

    task: Task
    line: Line
    _polls: int = 0
    _started_at: float = 0.0
    _over: bool = False
    _rung: anyio.Event = field(default_factory=anyio.Event)
    _answered: set[str] = field(default_factory=set[str])
    #: Answers that the server did not take.
    _unsent: Message = field(default_factory=dict[str, object])

    async def result(self) -> Message:
        """Return the result of the call that became the task.

        Raises:
            MCPError: The call ended with this error of the server.
            TaskFailed: The task failed without one, was cancelled, or is gone.
            AnswerUnreadable: The server answered with what the protocol does not have.
        """
        self._started_at = anyio.current_time()
        try:
            async with self._heard():
                return await self._until_over()
        finally:
            if not self._over and self.line.cancels:
                await self._cancel()

    @asynccontextmanager
    async def _heard(self) -> AsyncGenerator[None]:
        # The bell is exchanged after each ring, so it is looked up when it rings.
        def ring() -> None:
            self._rung.set()

        news, listens = self.line.news, self.task.form is Form.EXTENSION and not self.task.status.is_final
        news.add(self.task.id, ring)
        try:
            async with self.line.listen(self.task.id) if listens else nullcontext():
                yield
        finally:
            news.remove(self.task.id, ring)

    async def _until_over(self) -> Message:
        while True:
            await self.line.report(self.task, anyio.current_time() - self._started_at)
            if self.task.status is Status.WORKING:
                await self._pause()
            elif self.task.status is Status.INPUT_REQUIRED:
                found = await (self._hear() if self.task.form is Form.CORE else self._answer())
                if found is not None:
                    return found
            elif self.task.form is Form.CORE or self._is_whole():
                self._over = True
                return await (self._fetch() if self.task.form is Form.CORE else self._inline())
            self.task = await self._poll()

    def _is_whole(self) -> bool:
        """Tell whether a final state has what belongs to it: the first one, in place of an answer, has not."""
        wanted = {Status.COMPLETED: "result", Status.FAILED: "error"}.get(self.task.status)
        return self._polls > 0 or wanted is None or wanted in self.task.raw

    async def _pause(self, longest: float = tasks.LONGEST_SECONDS) -> None:
        """Wait for the interval of the server, or less if it says that something changed."""
        seconds = min(longest, self.task.pause(self._polls))
        with anyio.move_on_after(seconds):
            await self._rung.wait()
            # However many notifications come, polls keep a distance.
            self._rung = anyio.Event()
            await anyio.sleep(min(seconds, tasks.SHORTEST_SECONDS))

    async def _poll(self) -> Task:
        try:
            raw = await self._insist("tasks/get", _may_pass)
        except MCPError as error:
            if error.code not in _LASTING:
                raise
            self._over = True
            raise TaskFailed(
                f"MCP task error: the server has no such task (any more): {tasks.shown(error.error.message)}"
            ) from error
        self._polls += 1
        task = tasks.read(raw, self.task.form, of=self.task.id)
        logger.debug("task %s: %s, last updated %s", tasks.shown(task.id), task.status, task.updated_at)
        return task

    async def _insist(self, method: str, may_pass: Callable[[Exception], bool]) -> Message:
        """Send a request that changes nothing, again if it failed for a moment: a task outlives its connection."""
        for failures in range(_MOST_FAILURES):
            try:
                return await self.line.ask(method, {"taskId": self.task.id})
            except (MCPError, TransportFailed, AnswerLate) as error:
                if not may_pass(error):
                    raise
                await anyio.sleep(_SOON_SECONDS * 4**failures)
        return await self.line.ask(method, {"taskId": self.task.id})

    async def _hear(self) -> Message | None:
        """Let a server of 2025-11-25 ask: it does so while `tasks/result` waits, which may be refused."""
        try:
            result = await self.line.ask("tasks/result", {"taskId": self.task.id})
        except (MCPError, TransportFailed) as error:
            if isinstance(error, AnswerUnreadable):
                raise
            self.task = await self._poll()
            own = isinstance(error, MCPError) and error.code not in _LASTING
            if own and self.task.status is Status.FAILED:
                self._over = True
                raise
            if self.task.status is Status.INPUT_REQUIRED:
                await self._pause()
            return None
        self._over = True
        return tasks.without_relation(result, self.task)

    async def _fetch(self) -> Message:
        """Fetch the result of a task of 2025-11-25 that is over."""
        task = self.task
        if task.status is Status.CANCELLED:
            raise _cancelled(task)
        try:
            # An error may be that of the call.
            result = await self._insist("tasks/result", _is_lost)
        except MCPError as error:
            if task.status is Status.FAILED and error.code in _LASTING:
                raise _failed(task) from error
            raise
        result = tasks.without_relation(result, task)
        if task.status is Status.COMPLETED:
            return result
        if "content" not in result:
            raise _failed(task)
        return {**result, "isError": True}

    async def _inline(self) -> Message:
        """Return the result in the state of a task of 2026-07-28."""
        task = self.task
        if task.status is Status.CANCELLED:
            raise _cancelled(task)
        if task.status is Status.FAILED:
            error = as_object(task.raw.get("error"))
            code, message = error.get("code"), error.get("message")
            if not isinstance(code, int) or not isinstance(message, str):
                raise _failed(task)
            raise MCPError(code, message, error.get("data"))
        result = as_object(task.raw.get("result"))
        if not result or result.get("resultType", "complete") != "complete":
            raise AnswerUnreadable("MCP task error: the server says that the task is done, without a result.")
        return tasks.without_relation(result, task)

    async def _answer(self) -> None:
        """Answer what a server of 2026-07-28 asks, each request once."""
        asked = {
            key: as_object(request) for key, request in as_object(self.task.raw.get("inputRequests")).items()
        }
        fresh = {key: request for key, request in asked.items() if key not in self._answered}
        if len(self._answered) + len(fresh) > _MOST_INPUTS:
            raise TaskFailed("MCP task error: the server asks again and again.")
        if fresh:
            self._unsent |= await self.line.answer(fresh)
            self._answered |= fresh.keys()
        responses = {key: response for key, response in self._unsent.items() if key in asked}
        if not responses:
            await self._pause()
            return
        try:
            await self.line.ask("tasks/update", {"taskId": self.task.id, "inputResponses": responses})
            self._unsent = {}
        except MCPError as error:
            # The next poll says whether the task still waits for it.
            logger.debug("task %s takes no answer: %s", tasks.shown(self.task.id), error.error.message)
        await self._pause(_SOON_SECONDS)

    async def _cancel(self) -> None:
        """Cancel the task at the server, as far as it lets itself be told."""
        if not self.line.can_cancel:
            return
        with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
            try:
                await self.line.ask("tasks/cancel", {"taskId": self.task.id})
            except (MCPError, NextcloudMcpError) as error:
                logger.debug("task %s was not cancelled: %s", tasks.shown(self.task.id), error)


def _is_lost(error: Exception) -> bool:
    """Tell whether an answer did not arrive."""
    return isinstance(error, TransportFailed | AnswerLate) and not isinstance(error, AnswerUnreadable)


def _may_pass(error: Exception) -> bool:
    """Tell whether the same request may succeed soon."""
    return _is_lost(error) or (isinstance(error, MCPError) and error.code not in _LASTING)


def _cancelled(task: Task) -> TaskFailed:
    why = f": {task.message}" if task.message else "."
    return TaskFailed(f"MCP task error: task was cancelled by server{why}")


def _failed(task: Task) -> TaskFailed:
    return TaskFailed(f"MCP task error: {task.message or 'task failed'}")
