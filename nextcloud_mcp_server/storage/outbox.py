"""The outbox: work that must be done at Nextcloud even after a crash."""

import uuid
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage import lease as leases
from nextcloud_mcp_server.storage.crypto import KeyRing, readable
from nextcloud_mcp_server.storage.models import outbox, owned_by
from nextcloud_mcp_server.storage.records import OutboxItem, Principal, Tokens
from nextcloud_mcp_server.storage.tokens import REVOKE_TOKENS, dump_tokens
from nextcloud_mcp_server.storage.transaction import Transactions

#: One of two kinds of work; it needs the login name and the app password. `REVOKE_TOKENS` is the other one.
DELETE_APP_PASSWORD = "delete_app_password"  # noqa: S105 (the name of a kind of work)
_AT_ONCE = timedelta()


class OutboxRepository:
    """Stores work until it is done; the caller retries with growing pauses."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(
        self, *, principal: Principal, kind: str, nextcloud_url: str, login_name: str, secret: SecretStr
    ) -> None:
        """Add work that is due at once."""
        async with self._transactions.writing() as connection:
            await insert_item(
                connection,
                self._transactions.keys,
                principal=principal,
                kind=kind,
                nextcloud_url=nextcloud_url,
                login_name=login_name,
                secret=secret,
                due_at=self._transactions.now(),
            )

    async def add_tokens(
        self,
        *,
        principal: Principal,
        nextcloud_url: str,
        provider: str,
        tokens: Tokens,
        after: timedelta = _AT_ONCE,
    ) -> str:
        """Add the revocation of tokens that are stored nowhere else; return the work's id."""
        async with self._transactions.writing() as connection:
            return await insert_tokens(
                connection,
                self._transactions.keys,
                principal=principal,
                nextcloud_url=nextcloud_url,
                provider=provider,
                tokens=tokens,
                due_at=self._transactions.now() + after,
            )

    async def due_now(self, item_id: str) -> None:
        """Make postponed work due at once; no effect if it is done already."""
        async with self._transactions.writing() as connection:
            await connection.execute(
                update(outbox).where(outbox.c.id == item_id).values(due_at=self._transactions.now())
            )

    async def lease_due(
        self, *, owner: str, lease: timedelta, within: Principal | None = None, limit: int = 20
    ) -> list[OutboxItem]:
        """Lease the due work; while the lease lasts, no other process gets it.

        `within` limits it to one user. An item that cannot be decrypted is left out, and tried again after its
        lease.
        """
        async with self._transactions.writing() as connection:
            rows = await leases.take_due(
                connection,
                outbox,
                owner=owner,
                now=self._transactions.now(),
                lease=lease,
                limit=limit,
                within=within,
            )
        return readable(rows, partial(_item, self._transactions.keys))

    async def done(self, item_id: str) -> None:
        """Delete work that is done, and its secret with it."""
        async with self._transactions.writing() as connection:
            await connection.execute(delete(outbox).where(outbox.c.id == item_id))

    async def replace_secret(self, item: OutboxItem, secret: SecretStr) -> None:
        """Replace the secret of the work, such as tokens that were refreshed to be revoked."""
        sealed = self._transactions.keys.at("outbox", item.principal, item.id).seal(
            "secret", secret.get_secret_value()
        )
        async with self._transactions.writing() as connection:
            await connection.execute(update(outbox).where(outbox.c.id == item.id).values(secret=sealed))

    async def retry(self, item_id: str, next_try_at: datetime) -> None:
        """Count a failed attempt and release the work until then."""
        async with self._transactions.writing() as connection:
            await connection.execute(
                update(outbox)
                .where(outbox.c.id == item_id)
                .values(
                    attempts=outbox.c.attempts + 1, due_at=next_try_at, lease_owner=None, lease_until=None
                )
            )

    async def holds(self, principal: Principal) -> bool:
        """Tell whether work of this user is left."""
        query = select(outbox.c.id).where(owned_by(outbox.c, principal)).limit(1)
        async with self._transactions.reading() as connection:
            return await connection.scalar(query) is not None

    async def next_due_at(self, within: Principal | None = None) -> datetime | None:
        """Return when the next work is due; None if there is none."""
        async with self._transactions.reading() as connection:
            return await leases.next_due_at(connection, outbox, within)


async def insert_item(
    connection: AsyncConnection,
    keys: KeyRing,
    *,
    principal: Principal,
    kind: str,
    nextcloud_url: str,
    login_name: str,
    secret: SecretStr,
    due_at: datetime,
) -> str:
    """Add work within the caller's transaction; return its id."""
    item_id = uuid.uuid4().hex
    seal = keys.at("outbox", principal, item_id)
    await connection.execute(
        insert(outbox).values(
            id=item_id,
            issuer=principal.issuer,
            subject=principal.subject,
            kind=kind,
            nextcloud_url=nextcloud_url,
            login_name=seal.seal("login_name", login_name),
            secret=seal.seal("secret", secret.get_secret_value()),
            attempts=0,
            due_at=due_at,
        )
    )
    return item_id


async def take_back(connection: AsyncConnection, item_id: str | None, *, now: datetime) -> bool:
    """Delete postponed work within the caller's transaction; False if it may have begun."""
    if item_id is None:
        return True
    taken = await connection.execute(delete(outbox).where(outbox.c.id == item_id, outbox.c.due_at > now))
    return taken.rowcount == 1


async def insert_tokens(
    connection: AsyncConnection,
    keys: KeyRing,
    *,
    principal: Principal,
    nextcloud_url: str,
    provider: str,
    tokens: Tokens,
    due_at: datetime,
) -> str:
    """Add the revocation of tokens within the caller's transaction; return the work's id."""
    return await insert_item(
        connection,
        keys,
        principal=principal,
        kind=REVOKE_TOKENS,
        nextcloud_url=nextcloud_url,
        login_name=provider,
        secret=dump_tokens(tokens),
        due_at=due_at,
    )


def _item(keys: KeyRing, row: Row[Any]) -> OutboxItem:
    principal = Principal(issuer=row.issuer, subject=row.subject)
    seal = keys.at("outbox", principal, row.id)
    return OutboxItem(
        id=row.id,
        principal=principal,
        kind=row.kind,
        nextcloud_url=row.nextcloud_url,
        login_name=seal.open("login_name", row.login_name),
        secret=SecretStr(seal.open("secret", row.secret)),
        attempts=row.attempts,
        next_try_at=row.due_at,
        lease_id=row.lease_owner,
    )
