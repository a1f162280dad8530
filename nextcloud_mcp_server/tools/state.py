"""What the tools of one server share; server/composition.py builds it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from mcp.server.context import ServerRequestContext

from nextcloud_mcp_server.auth.accounts import Accounts
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.protocol.availability import Availability
from nextcloud_mcp_server.protocol.completion_notifier import CompletionNotifier
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.protocol.wire import Dialect
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.local_folder import LocalFolder

if TYPE_CHECKING:
    # The types only: what they import is left to the first call that needs it.
    from nextcloud_mcp_server.auth.audit import AuditLog
    from nextcloud_mcp_server.auth.consent.provisioning import Provisioning


class ToolServices(Protocol):
    """Everything that needs the database or the network. Opened on first use, not at start."""

    @property
    def accounts(self) -> Accounts:
        """Opens accounts."""
        ...

    @property
    def provisioning(self) -> "Provisioning | None":
        """Advances consent requests; None where the operator configured the credential."""
        ...

    @property
    def audit(self) -> "AuditLog":
        """Records calls."""
        ...

    @property
    def bound(self) -> frozenset[str]:
        """The scopes that the operator's settings allow."""
        ...


@dataclass(frozen=True, slots=True)
class State:
    """The parts of a server that a call uses."""

    services: Callable[[], Awaitable[ToolServices]]
    caller: Callable[[ServerRequestContext[Any, Any]], Caller]
    pending: Pending
    notifier: CompletionNotifier
    availability: Availability
    dialect: Dialect
    hold_seconds: float
    output_schemas: bool = False
    documents: Documents = field(default_factory=Documents)
    local_folder: LocalFolder = field(default_factory=LocalFolder)
