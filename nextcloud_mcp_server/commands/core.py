"""What the commands need of the program behind them."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from nextcloud_mcp_server.storage.records import Grant, Principal


class Connecting(Protocol):
    """Gets and ends the person's consent."""

    def connect(
        self, open_browser: Callable[[str], None] | None, on_progress: Callable[[str], None]
    ) -> Awaitable[str]:
        """Walk the person through one consent; the answer is the account's name."""
        ...

    def disconnect(self, principal: Principal) -> Awaitable[bool]:
        """End a connection here and at Nextcloud; True when Nextcloud has confirmed it."""
        ...


class Grants(Protocol):
    """Reads what has been granted."""

    def all(self) -> Awaitable[list[Grant]]:
        """List every client's permission, with its account."""
        ...
