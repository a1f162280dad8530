"""Where a page request comes from, for the counts of failed code exchanges.

Set around each request and read where a code is exchanged. In between lie layers that have no use for it.
"""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requester:
    """The source that failures are counted for: a network, or its browsers in which a user signed in before.

    `source` is a keyed hash, which gives no address away; empty where it is not known.
    """

    source: str = ""
    is_known_browser: bool = False


#: The requester of the request that this task works on.
current_requester: ContextVar[Requester] = ContextVar("current_requester", default=Requester())  # noqa: B039 - frozen
