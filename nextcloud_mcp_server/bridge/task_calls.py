"""Calls through the bridge that a server runs as tasks.

A chat client that knows the same form of tasks as the server makes and watches them by itself. For every other one the
bridge makes the task where a tool needs it, waits for it, and the chat client sees one slow call with progress.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count

from mcp.shared.exceptions import MCPError
from mcp_types import CLIENT_CAPABILITIES_META_KEY, INVALID_REQUEST, METHOD_NOT_FOUND

from nextcloud_mcp_server.bridge import tasks
from nextcloud_mcp_server.bridge.envelope import (
    Agreement,
    Hello,
    Message,
    as_list,
    as_object,
    names_tasks,
    with_tasks,
)
from nextcloud_mcp_server.bridge.remote import Remote
from nextcloud_mcp_server.bridge.task_watch import AnswerInputs, Line, Watch
from nextcloud_mcp_server.bridge.tasks import News, Task
from nextcloud_mcp_server.bridge.waiting import Progress, beside

_CALL = "tools/call"
_FORBIDDEN = "forbidden"
#: Texts that no id of the SDK meets.
_numbers = count(1)


def follows(hello: Hello, agreement: Agreement | None, params: Message) -> bool:
    """Tell whether a chat client watches the task of its request by itself."""
    if agreement is None or hello.modern != agreement.modern:
        return False
    if not hello.modern:
        return "task" in params
    return names_tasks(as_object(as_object(params.get("_meta")).get(CLIENT_CAPABILITIES_META_KEY)))


def for_everyone(result: Message, agreement: Agreement | None) -> Message:
    """Return a list of tools in which no tool requires a task: the bridge makes it for a client that does not.

    Chat clients that know the word and have no tasks do not call such a tool.
    """
    if (
        agreement is None
        or agreement.modern
        or not tasks.offers(agreement.capabilities, "requests.tools.call")
    ):
        return result
    listed = [as_object(tool) for tool in as_list(result.get("tools"))]
    if not any(_is_required(tool) for tool in listed):
        return result
    return {
        **result,
        "tools": [
            {**tool, "execution": {**as_object(tool.get("execution")), "taskSupport": "optional"}}
            if _is_required(tool)
            else tool
            for tool in listed
        ],
    }


def _is_required(tool: Message) -> bool:
    return as_object(tool.get("execution")).get("taskSupport") == "required"


@dataclass(frozen=True, slots=True)
class Watching:
    """What the wait for one task uses of its call."""

    progress: Progress
    answer: AnswerInputs
    #: Lets the time limit of a consent stand still.
    unlimited: Callable[[], AbstractContextManager[None]]


@dataclass(slots=True)
class TaskCalls:
    """The tasks for which a bridge waits."""

    beat_seconds: float
    news: News = field(default_factory=News)

    async def call(self, remote: Remote, hello: Hello, params: Message, watching: Watching) -> Message:
        """Call a tool; return its result, or the task if the chat client watches it.

        Raises:
            MCPError: The server answered with an error.
            NextcloudMcpError: The task failed, or the server sent what the protocol does not have.
        """
        agreement = await remote.connected()
        if follows(hello, agreement, params):
            return await remote.request(_CALL, params)
        result = await self._made(remote, agreement, params)
        task = tasks.made(result)
        if task is None:
            return result
        found = await self._wait(remote, agreement, task, watching)
        return {"resultType": "complete", **found} if hello.modern and agreement.modern else found

    async def _made(self, remote: Remote, agreement: Agreement, given: Message) -> Message:
        """Send a call, as a task if the tool needs one."""
        params = {key: value for key, value in given.items() if key != "task"}
        support = remote.envelope.task_support.get(str(params.get("name"))) if remote.envelope else None
        can = not agreement.modern and tasks.offers(agreement.capabilities, "requests.tools.call")
        if can and support == "required":
            return await remote.request(_CALL, {**params, "task": {}})
        try:
            return await remote.request(_CALL, params)
        except MCPError as error:
            again: Message | None = None
            if error.code == tasks.MISSING_CAPABILITY and tasks.wants_extension(error.error.data):
                again = _declaring(params)
            elif can and support is None and error.code in (METHOD_NOT_FOUND, INVALID_REQUEST):
                # The tool was never listed, so it may be one that needs a task.
                again = {**params, "task": {}}
            if again is None:
                raise
            # The server began nothing.
            return await self._again(remote, again, error)

    async def _again(self, remote: Remote, params: Message, first: MCPError) -> Message:
        try:
            return await remote.request(_CALL, params)
        except MCPError as error:
            raise (first if error.code == first.code else error) from None

    async def _wait(self, remote: Remote, agreement: Agreement, task: Task, watching: Watching) -> Message:
        said = [task.message]

        async def report(state: Task, seconds: float) -> None:
            del seconds
            said[0] = state.message

        line = Line(
            remote.request,
            watching.answer,
            self.news,
            report=report,
            listen=lambda task_id: beside(_hear, remote, task_id),
            can_cancel=agreement.modern or tasks.offers(agreement.capabilities, "cancel"),
        )
        words = f"“{remote.name}” runs the call as a task"
        told = watching.progress.running(
            lambda: f"{words}: {said[0]}" if said[0] else f"{words}.", beat_seconds=self.beat_seconds
        )
        with watching.unlimited():
            async with told:
                return await Watch(task, line).result()


async def _hear(remote: Remote, task_id: str) -> None:
    """Ask a server of 2026-07-28 for notifications about a task; it need not send them."""
    try:
        await remote.request(
            "subscriptions/listen",
            {"notifications": {"taskIds": [task_id]}},
            request_id=f"bridge-task-{next(_numbers)}",
        )
    except MCPError:
        return


def _declaring(params: Message) -> Message:
    """Return the parameters of a request with the extension among the capabilities of the chat client."""
    meta = as_object(params.get("_meta"))
    own = with_tasks(as_object(meta.get(CLIENT_CAPABILITIES_META_KEY)))
    return {**params, "_meta": {**meta, CLIENT_CAPABILITIES_META_KEY: own}}
