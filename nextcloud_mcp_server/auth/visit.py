"""What a page may know of one request for access."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import SecretStr

from nextcloud_mcp_server.storage.records import ElicitationState


@dataclass(frozen=True, slots=True)
class Visit:
    """One elicitation as the person sees it; no principal, no credential.

    `login_url` is None until the person said yes. `granted` is what was ticked once there is a login
    flow, and what is allowed once the state is complete. `error` is a sentence for a failed one.
    """

    id: str
    state: ElicitationState
    client_name: str
    nextcloud_host: str
    needed: frozenset[str]
    offered: frozenset[str]
    login_url: SecretStr | None
    expires_at: datetime
    account_name: str | None
    error: str | None
    granted: frozenset[str]
