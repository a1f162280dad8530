"""The clients we know, how long we know them, and how they prove who they are (RFC 6749 §2.3)."""

import hashlib
import hmac
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.errors import OAuthRefusal
from nextcloud_mcp_server.storage.oauth_records import Client

#: Most registrations are made by a user who then closes the page.
UNUSED = timedelta(hours=24)
IDLE = timedelta(days=90)

#: Clients that are kept without having been used; of more, the oldest are forgotten first.
MOST_UNUSED = 5_000

#: How exactly the last use is known: a write for every token would cost more than it tells.
_EXACT_TO = timedelta(days=1)


class ClientRecords(Protocol):
    """Where clients are kept."""

    async def find(self, client_id: str) -> Client | None:
        """Return the client of an id."""
        ...

    async def save(self, client: Client) -> None:
        """Insert a client, or replace all of it but `last_used_at`, which only `used` changes."""
        ...

    async def used(self, client_id: str, *, at: datetime) -> None:
        """Note a use."""
        ...

    async def purge(self, *, unused_before: datetime, idle_before: datetime, most_unused: int) -> int:
        """Remove those never used and created before the one, and those created and used before the other.

        Of the others that were never used, no more than so many stay: the newest.
        """
        ...


class Clients:
    """Finds clients for `/authorize`, `/token` and `/revoke`; reads no document.

    `allowed` says which of them the operator lets users connect.
    """

    def __init__(
        self,
        records: ClientRecords,
        *,
        clock: Callable[[], datetime],
        allowed: AllowedClients | None = None,
    ) -> None:
        self._records = records
        self._clock = clock
        self._allowed = allowed or AllowedClients()

    def allows(self, client: Client) -> bool:
        """Tell whether users may connect a client, also one that was let in before the operator thought again."""
        return self._allowed.allow(client)

    async def find(self, client_id: str) -> Client | None:
        """Return a client that has not expired."""
        client = await self._records.find(client_id)
        if client is None:
            return None
        used_at = client.last_used_at
        ends_at = client.created_at + UNUSED if used_at is None else max(client.created_at, used_at) + IDLE
        return client if self._clock() < ends_at else None

    async def touch(self, client: Client) -> None:
        """Note that a client was used, so that it does not expire."""
        now = self._clock()
        if client.last_used_at is None or now - client.last_used_at >= _EXACT_TO:
            await self._records.used(client.client_id, at=now)

    async def purge(self) -> int:
        """Remove the expired ones, and say how many."""
        now = self._clock()
        return await self._records.purge(
            unused_before=now - UNUSED, idle_before=now - IDLE, most_unused=MOST_UNUSED
        )


def authenticate(client: Client, secret: str | None) -> None:
    """Check what a client proves itself with; a public one has nothing to prove (RFC 6749 §2.1).

    The secret counts whether it came in the form or in the header: clients mix up the two, and which
    one it is tells an attacker nothing.

    Raises:
        OAuthRefusal: The secret is missing or wrong.
    """
    if client.secret_hash is None:
        return
    if secret is None or not hmac.compare_digest(secret_hash(secret), client.secret_hash):
        raise OAuthRefusal("invalid_client", "The client's secret is missing or wrong.", status=401)


def secret_hash(secret: str) -> str:
    """Hash a secret for keeping; it is random and long, so one round is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
