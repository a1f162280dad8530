"""The source of a page request, for the counts of requests and of failed code exchanges.

It is set around each request, and read by the limits of pages and at the code exchange.
"""

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requester:
    """The source that failures are counted for: a network, or its browsers in which a user signed in before.

    `source` is a keyed hash, from which the address cannot be read; empty if the address is not known. `mark` is the
    random value of a browser in which a user signed in before, empty for others.
    """

    source: str = ""
    mark: str = ""

    @property
    def is_known_browser(self) -> bool:
        """Whether a user signed in before in this browser."""
        return bool(self.mark)


#: The requester of the request that this task handles.
current_requester: ContextVar[Requester] = ContextVar("current_requester", default=Requester())  # noqa: B039 - frozen
