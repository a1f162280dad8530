"""What clients want to hear of: the addresses that a session or a stream has subscribed to."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.resources.kind import Kind

#: Addresses that one person's clients can wait for together, and sessions or streams that do.
MAX_ADDRESSES = 100
MAX_INTERESTS = 32

#: A kind, and which of it an address means.
Target = tuple[Kind, str]


#: Of which kinds a user wants to hear that their lists have changed: of all, or of those they named one of.
Lists = Literal["all", "own", "none"]


def _always() -> bool:
    """Say so of what is gone when no one listens, such as a stream."""
    return True


@dataclass(eq=False, slots=True)
class Interest:
    """What one session or stream wants to hear of: some addresses, and `lists` of resources that change.

    `lose` is called with the addresses that its client may not read any more. `attended` tells whether
    its client can hear anything now.
    """

    caller: Caller
    lists: Lists
    lose: Callable[[Collection[str]], Awaitable[None]]
    attended: Callable[[], bool] = _always
    wants: dict[str, Target] = field(default_factory=dict[str, Target])

    def hears_of(self, kind: Kind) -> bool:
        """Tell whether a changed list of this kind is of interest."""
        return self.lists == "all" or (
            self.lists == "own" and any(one is kind for one, _ in self.wants.values())
        )
