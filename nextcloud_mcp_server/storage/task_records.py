"""The records of tasks, and their bounds; imports no SQLAlchemy, so that a server can start without it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from nextcloud_mcp_server.storage.records import Principal

#: How long a task and its result are stored.
LIFETIME: Final = timedelta(hours=24)

#: How many tasks of one user may run at once, over all processes.
MOST_RUNNING: Final = 5
#: How often a task whose process is gone is started again.
MOST_RESTARTS: Final = 2
#: How many tasks of one user are stored, and how many bytes of results; the oldest ended ones are deleted first.
MOST_KEPT: Final = 50
MOST_BYTES: Final = 8_388_608

#: The answer to a call whose permission ended while it was at work.
NO_LONGER_PERMITTED: Final = (
    "The user has changed what this client may do at Nextcloud, so this call was stopped; a part of it may be done. "
    "Do not retry before the user says so."
)

#: The answer to a call whose client has no valid sign-in any more.
SIGN_IN_ENDED: Final = (
    "The sign-in of this client has ended, so this call was stopped; a part of it may be done. Do not retry before the "
    "user has signed in again."
)


class TaskStatus(StrEnum):
    """The status of a task, as the specification names it (`Task.status`)."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether a task stays in this status."""
        return self in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class TaskOwner:
    """The user whose task it is, and the client that started it; no other one can reach it."""

    principal: Principal
    client_id: str


@dataclass(frozen=True, slots=True)
class Began:
    """What a call began its work with: the credential of the user's account, and the scopes that it needed.

    `sign_in` names the sign-in of its token, where this server issues tokens.
    """

    credential_id: str
    scopes: frozenset[str]
    sign_in: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A stored task. `is_lost`: the process that runs it has not renewed its lease.

    `arguments` is JSON, None where the call must not be started again. `outcome` is JSON, too: the result of a
    completed task, the error of a failed one, or the input requests of one that requires input.
    """

    id: str
    owner: TaskOwner
    status: TaskStatus
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    is_lost: bool
    tool: str
    arguments: str | None = None
    restarts: int = 0
    message: str | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The process that runs tasks, and how long others leave them to it after its last sign of life."""

    holder: str
    duration: timedelta
