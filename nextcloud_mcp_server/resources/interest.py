"""The subscriptions of clients: the resources and lists for which a session or a stream wants updates."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.resources.kind import Kind

#: The maximum for one user's clients together: of URIs, and of sessions or streams.
MAX_ADDRESSES = 100
MAX_INTERESTS = 32

#: A kind, and the value of a URI of that kind.
Target = tuple[Kind, str]


#: Whose changed lists are reported: those of all kinds, of the kinds of the subscribed URIs, or none.
Lists = Literal["all", "own", "none"]


def _always() -> bool:
    """Return True, for what is removed when its client leaves, such as a stream."""
    return True


@dataclass(eq=False, slots=True)
class Interest:
    """The subscriptions of one session or stream: some URIs, and `lists` of resources.

    `lose` is called with the URIs that its client may no longer read. `attended` tells whether its client can receive
    updates now.
    """

    caller: Caller
    lists: Lists
    lose: Callable[[Collection[str]], Awaitable[None]]
    attended: Callable[[], bool] = _always
    wants: dict[str, Target] = field(default_factory=dict[str, Target])

    def hears_of(self, kind: Kind) -> bool:
        """Tell whether changes of this kind's list are to be reported."""
        return self.lists == "all" or (
            self.lists == "own" and any(one is kind for one, _ in self.wants.values())
        )
