"""The source of a page request, for the counts of failed code exchanges.

It is set around each request and read at the code exchange; the layers in between do not use it.
"""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requester:
    """The source that failures are counted for: a network, or its browsers in which a user signed in before.

    `source` is a keyed hash, from which the address cannot be read; empty if the address is not known.
    """

    source: str = ""
    is_known_browser: bool = False


#: The requester of the request that this task handles.
current_requester: ContextVar[Requester] = ContextVar("current_requester", default=Requester())  # noqa: B039 - frozen
