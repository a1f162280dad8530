"""The known clients, their expiry, and client authentication (RFC 6749 §2.3)."""

import hashlib
import hmac
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.errors import OAuthRefusal
from nextcloud_mcp_server.storage.oauth_records import Client

#: How long an unused client is kept. Most registrations are made for a user who then closes the page.
UNUSED = timedelta(hours=24)
IDLE = timedelta(days=90)

#: Unused clients that are kept; of more, the oldest are deleted first.
MOST_UNUSED = 5_000

#: Precision of the last use: a write for every token would cost too much.
_EXACT_TO = timedelta(days=1)


class ClientRecords(Protocol):
    """The repository of clients."""

    async def find(self, client_id: str) -> Client | None:
        """Return the client with an id."""
        ...

    async def save(self, client: Client) -> None:
        """Insert a client, or replace all of it but `last_used_at`, which only `used` changes."""
        ...

    async def used(self, client_id: str, *, at: datetime) -> None:
        """Record a use."""
        ...

    async def purge(self, *, unused_before: datetime, idle_before: datetime, most_unused: int) -> int:
        """Delete the expired clients, and return how many.

        These are clients never used and created before `unused_before`, and those created and last used before
        `idle_before`. Of the others that were never used, only the newest `most_unused` are kept.
        """
        ...


class Clients:
    """Finds clients for `/authorize`, `/token` and `/revoke`; reads no document.

    `allowed` says which clients users may connect.
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
        """Tell whether users may connect a client, even one that was connected before the settings changed."""
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
        """Record a use of a client, so that it does not expire."""
        now = self._clock()
        if client.last_used_at is None or now - client.last_used_at >= _EXACT_TO:
            await self._records.used(client.client_id, at=now)

    async def purge(self) -> int:
        """Delete the expired clients, and return how many."""
        now = self._clock()
        return await self._records.purge(
            unused_before=now - UNUSED, idle_before=now - IDLE, most_unused=MOST_UNUSED
        )


def authenticate(client: Client, secret: str | None) -> None:
    """Check a client's secret; a public client has none (RFC 6749 §2.1).

    The secret is accepted from the form and from the header: clients mix up the two, and the difference tells
    an attacker nothing.

    Raises:
        OAuthRefusal: The secret is missing or wrong.
    """
    if client.secret_hash is None:
        return
    if secret is None or not hmac.compare_digest(secret_hash(secret), client.secret_hash):
        raise OAuthRefusal("invalid_client", "The client's secret is missing or wrong.", status=401)


def secret_hash(secret: str) -> str:
    """Hash a secret for storage; it is random and long, so one round is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
