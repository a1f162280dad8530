"""What a page may know of an elicitation."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import SecretStr

from nextcloud_mcp_server.storage.records import ElicitationState


@dataclass(frozen=True, slots=True)
class Visit:
    """One elicitation as its pages show it.

    `needed` is what the waiting call asks for, `offered` what may be ticked, `granted` what is
    permitted already. `login_url` is Nextcloud's own page, None until the person pressed Allow.
    """

    id: str
    state: ElicitationState
    client_name: str
    nextcloud_host: str
    needed: frozenset[str]
    offered: frozenset[str]
    granted: frozenset[str]
    login_url: SecretStr | None
    expires_at: datetime
    account_name: str | None = None
    error: str | None = None
