"""The work of a call that may become a task: the call says when it begins, and how far it is."""

from contextvars import ContextVar
from dataclasses import dataclass, field

import anyio


@dataclass(eq=False, slots=True)
class Work:
    """One call. `is_detached`: its request has been answered, so nothing more is sent for that request.

    `begun` is also set when the call ended before its work began; `credential_id` is then None.
    """

    begun: anyio.Event = field(default_factory=anyio.Event)
    credential_id: str | None = None
    message: str | None = None
    is_detached: bool = False


#: The work of the call that runs now; None where the call cannot become a task.
current: ContextVar[Work | None] = ContextVar("current", default=None)


def begin(credential_id: str) -> None:
    """Note that the consent is there, and the work at Nextcloud begins with this credential."""
    work = current.get()
    if work is not None:
        work.credential_id = credential_id
        work.begun.set()


def report(message: str | None) -> bool:
    """Note how far the work is; False where the client is to be sent the progress itself.

    A name in it may be no Unicode, and then could not be sealed: half of a surrogate pair becomes a question mark.
    """
    work = current.get()
    if work is None:
        return False
    work.message = message.encode(errors="replace").decode() if message else work.message
    return work.is_detached
