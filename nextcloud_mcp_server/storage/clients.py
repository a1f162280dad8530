"""Clients of the built-in authorization server: registered ones, and the last version of documents."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.authorization_transactions import end_auth_transactions
from nextcloud_mcp_server.storage.crypto import KeyRing, Seal
from nextcloud_mcp_server.storage.elicitations import end_of_client
from nextcloud_mcp_server.storage.models import auth_transactions, clients, codes, permissions, token_families
from nextcloud_mcp_server.storage.oauth_records import REGISTERED, Client
from nextcloud_mcp_server.storage.tasks import tasks
from nextcloud_mcp_server.storage.token_families import end_families
from nextcloud_mcp_server.storage.transaction import Transactions

#: Unused clients beyond the limit that are deleted at a time.
_AT_ONCE = 1_000


class ClientRepository:
    """Stores clients by their id. Names and URLs are sealed: a client may be known to one user only."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def find(self, client_id: str) -> Client | None:
        """Return a client; None if there is none, or its key is missing.

        It can register again, or its document be read again.
        """
        if "\0" in client_id:
            # PostgreSQL refuses such a query, and unauthenticated callers choose the id.
            return None
        query = select(clients).where(clients.c.client_id == client_id)
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _client(self._transactions.keys, row)

    async def all(self) -> list[Client]:
        """Return all clients that can be decrypted, the oldest first."""
        query = select(clients).order_by(clients.c.created_at, clients.c.client_id)
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        found = [_client(self._transactions.keys, row) for row in rows]
        return [client for client in found if client is not None]

    async def save(self, client: Client) -> None:
        """Insert a client, or replace the one with its id; `last_used_at` is kept."""
        keys = self._transactions.keys
        values = _values(keys, client)
        async with self._transactions.writing() as connection:
            saved = await connection.execute(
                update(clients).where(clients.c.client_id == client.client_id).values(values)
            )
            if saved.rowcount == 0:
                await connection.execute(insert(clients).values(**values, last_used_at=client.last_used_at))

    async def used(self, client_id: str, *, at: datetime) -> None:
        """Record a use of a client."""
        async with self._transactions.writing() as connection:
            await connection.execute(
                update(clients).where(clients.c.client_id == client_id).values(last_used_at=at)
            )

    async def delete(self, client_id: str) -> bool:
        """Delete a client, its permissions and its tokens of all users; False if there is none.

        A client with the same document has the same id again, and must not find anything there.
        """
        async with self._transactions.writing() as connection:
            known = await self._delete(connection, [client_id]) == 1
            if known:
                await _take_permissions(connection, client_id)
                await end_of_client(connection, client_id)
            return known

    async def purge(self, *, unused_before: datetime, idle_before: datetime, most_unused: int) -> int:
        """Delete the expired clients, and return how many.

        These are clients never used and created before `unused_before`, and those created and last used before
        `idle_before`. Of the others that were never used, the newest `most_unused` stay. A registered id is
        never issued again, so its permissions are deleted too; a document keeps its URL, and its permissions.
        """
        due = select(clients.c.client_id).where(
            or_(
                and_(clients.c.last_used_at.is_(None), clients.c.created_at < unused_before),
                and_(clients.c.created_at < idle_before, clients.c.last_used_at < idle_before),
            )
        )
        too_many = (
            select(clients.c.client_id)
            .where(clients.c.last_used_at.is_(None))
            .order_by(clients.c.created_at.desc(), clients.c.client_id)
            .offset(most_unused)
            # SQLite supports no offset without a limit.
            .limit(_AT_ONCE)
        )
        async with self._transactions.writing() as connection:
            gone = 0
            for which in (due, too_many):
                client_ids = (await connection.execute(which)).scalars().all()
                gone += await self._delete(connection, client_ids)
                for client_id in client_ids:
                    if client_id.startswith(REGISTERED):
                        await _take_permissions(connection, client_id)
            return gone

    async def _delete(self, connection: AsyncConnection, client_ids: Sequence[str]) -> int:
        gone, now = 0, self._transactions.now()
        for client_id in client_ids:
            deleted = await connection.execute(delete(clients).where(clients.c.client_id == client_id))
            gone += deleted.rowcount
            await connection.execute(delete(codes).where(codes.c.client_id == client_id))
            await end_auth_transactions(connection, auth_transactions.c.client_id == client_id, now=now)
            await end_families(
                connection,
                self._transactions.keys,
                token_families.c.client_id == client_id,
                now=now,
                why="ended: the client was removed",
            )
        return gone


async def _take_permissions(connection: AsyncConnection, client_id: str) -> None:
    await connection.execute(delete(permissions).where(permissions.c.client_id == client_id))
    await connection.execute(delete(tasks).where(tasks.c.client_id == client_id))


def _seal(keys: KeyRing, client_id: str) -> Seal:
    # A client belongs to no user.
    return Seal(keys, ("clients", client_id))


def client_place(keys: KeyRing, row: Row[Any]) -> Seal:
    """Return the seal for the values of a row."""
    return _seal(keys, row.client_id)


def _values(keys: KeyRing, client: Client) -> dict[str, object]:
    details = {
        "kind": client.kind,
        "name": client.name,
        "redirect_uris": client.redirect_uris,
        "auth_method": client.auth_method,
        "secret_hash": client.secret_hash,
        "scopes": None if client.scopes is None else sorted(client.scopes),
        "native": client.native,
        "logo": client.logo,
    }
    return {
        "client_id": client.client_id,
        "details": _seal(keys, client.client_id).seal("details", json.dumps(details)),
        "created_at": client.created_at,
    }


def _client(keys: KeyRing, row: Row[Any]) -> Client | None:
    try:
        details = json.loads(client_place(keys, row).open("details", row.details))
    except Unsealable:
        return None
    scopes = details["scopes"]
    return Client(
        client_id=row.client_id,
        kind=details["kind"],
        name=details["name"],
        redirect_uris=tuple(details["redirect_uris"]),
        auth_method=details["auth_method"],
        secret_hash=details["secret_hash"],
        scopes=None if scopes is None else frozenset(scopes),
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        native=details["native"],
        # Clients that were stored before have none.
        logo=details.get("logo", ""),
    )
