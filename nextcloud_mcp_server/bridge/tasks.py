"""Tasks of a server: results that come later, in both forms of the protocol.

| form | a task is made by | its result is in | the server asks for input by |
|---|---|---|---|
| CORE, 2025-11-25 | a call with `task` | `tasks/result` | requests, while `tasks/result` waits |
| EXTENSION, 2026-07-28 | the server, for any call | `tasks/get` | `inputRequests`, answered by `tasks/update` |

Notifications about a task only make the next poll come at once: what they say is not believed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any, Final

from nextcloud_mcp_server.bridge.envelope import Message, as_object, names_tasks
from nextcloud_mcp_server.bridge.naming import RELATED
from nextcloud_mcp_server.errors import AnswerUnreadable
from nextcloud_mcp_server.logs import one_line

#: What servers send when the status of a task has changed, in the two forms.
NOTICES: Final = frozenset({"notifications/tasks/status", "notifications/tasks"})
MISSING_CAPABILITY: Final = -32021

#: A server is not asked more often, whatever it wishes, nor more rarely.
SHORTEST_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 60.0
#: Without an interval of the server the pauses grow from the first to the second.
_FIRST_SECONDS: Final = 0.5
_USUAL_SECONDS: Final = 5.0
_LONGEST_ID: Final = 1000
_LONGEST_MESSAGE: Final = 500
_LONGEST_SHOWN: Final = 120


class Form(Enum):
    """The form of tasks that a server has."""

    CORE = auto()
    EXTENSION = auto()


class Status(StrEnum):
    """What became of a task."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Tell whether nothing can follow."""
        return self not in (Status.WORKING, Status.INPUT_REQUIRED)


@dataclass(frozen=True, slots=True)
class Task:
    """What a server says about one task; texts are short enough to show, and have no control characters."""

    id: str
    form: Form
    status: Status
    message: str
    created_at: str
    updated_at: str
    #: The interval that the server wishes, if it is one.
    interval_seconds: float | None
    #: What was sent.
    raw: Message

    def pause(self, polls: int) -> float:
        """Return the seconds until the next poll, after so many."""
        if self.interval_seconds is None:
            return min(_USUAL_SECONDS, _FIRST_SECONDS * 1.5 ** min(polls, 10))
        return min(LONGEST_SECONDS, max(SHORTEST_SECONDS, self.interval_seconds))


def made(result: Message) -> Task | None:
    """Return the task that a server made instead of an answer; None if it is an answer.

    Raises:
        AnswerUnreadable: It is a task that has no usable id or status.
    """
    if result.get("resultType") == "task":
        return read(result, Form.EXTENSION)
    if "content" not in result and (task := as_object(result.get("task"))):
        return read(task, Form.CORE)
    return None


def read(raw: Message, form: Form, *, of: str | None = None) -> Task:
    """Read what a server says about a task; `of` is the id that was asked for.

    Raises:
        AnswerUnreadable: It is about another task, or no state that the protocol has.
    """
    id_, status = raw.get("taskId"), raw.get("status")
    if not isinstance(id_, str) or not 0 < len(id_) <= _LONGEST_ID:
        raise AnswerUnreadable("MCP task error: the server sent a task without a usable id.")
    if of is not None and id_ != of:
        raise AnswerUnreadable(
            f"MCP task error: asked for the task {shown(of)}, the server answered about {shown(id_)}."
        )
    if not isinstance(status, str) or status not in set(Status):
        raise AnswerUnreadable(
            f"MCP task error: the server sent the status {shown(str(status))}, which tasks do not have."
        )
    return Task(
        id=id_,
        form=form,
        status=Status(status),
        message=_text(raw.get("statusMessage"), _LONGEST_MESSAGE),
        created_at=_text(raw.get("createdAt"), _LONGEST_SHOWN),
        updated_at=_text(raw.get("lastUpdatedAt"), _LONGEST_SHOWN),
        interval_seconds=_seconds(raw.get("pollInterval" if form is Form.CORE else "pollIntervalMs")),
        raw=raw,
    )


def shown(text: str) -> str:
    """Return an id or another word of a server as people may see it."""
    return _text(text, _LONGEST_SHOWN)


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str):
        return ""
    short = one_line(value[:longest])
    return f"{short}…" if len(value) > longest else short


def _seconds(value: object) -> float | None:
    """Return an interval in seconds; None if the server gave none, or one that cannot be waited for."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return None
    # An integer of JSON may be too large for a float.
    return min(value, LONGEST_SECONDS * 1000) / 1000


def without_relation(result: Message, task: Task) -> Message:
    """Return a result without the mark that names its task.

    Raises:
        AnswerUnreadable: The mark names another task.
    """
    meta = as_object(result.get("_meta"))
    if RELATED not in meta:
        return result
    related = as_object(meta[RELATED]).get("taskId")
    if related != task.id:
        raise AnswerUnreadable(
            f"MCP task error: asked for the result of the task {shown(task.id)}, the server answered with that of "
            f"{shown(str(related))}."
        )
    rest = {key: value for key, value in meta.items() if key != RELATED}
    return {key: value for key, value in result.items() if key != "_meta"} | ({"_meta": rest} if rest else {})


def offers(capabilities: Message, what: str) -> bool:
    """Tell whether a server of 2025-11-25 declares a part of tasks, such as `list` or `requests.tools.call`."""
    found: object = capabilities.get("tasks")
    for name in what.split("."):
        found = as_object(found).get(name)
    return isinstance(found, dict)


def wants_extension(data: object) -> bool:
    """Tell whether the data of error -32021 name the extension."""
    return names_tasks(as_object(as_object(data).get("requiredCapabilities")))


class News:
    """Hears what servers say about the tasks that are waited for."""

    def __init__(self) -> None:
        self._bells: dict[str, list[Callable[[], None]]] = {}

    def tell(self, params: Mapping[str, Any] | None) -> None:
        """Wake those who wait for the task of a notification; one that nobody waits for is ignored."""
        task_id = (params or {}).get("taskId")
        for ring in self._bells.get(task_id, ()) if isinstance(task_id, str) else ():
            ring()

    def add(self, task_id: str, ring: Callable[[], None]) -> None:
        """Call this for each notification about a task."""
        self._bells.setdefault(task_id, []).append(ring)

    def is_awaited(self, task_id: object) -> bool:
        """Tell whether this program waits for a task by itself."""
        return isinstance(task_id, str) and task_id in self._bells

    def remove(self, task_id: str, ring: Callable[[], None]) -> None:
        """End what `add` began."""
        bells = self._bells[task_id]
        bells.remove(ring)
        if not bells:
            del self._bells[task_id]
