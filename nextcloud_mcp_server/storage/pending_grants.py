"""Pending grants: access that Nextcloud gave already, and that the user has not confirmed yet."""

import contextlib
import uuid
from collections.abc import Collection
from typing import Any

from pydantic import SecretStr
from sqlalchemy import ColumnElement, Row, and_, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, hash_of
from nextcloud_mcp_server.storage.models import active, elicitations, kept, owned_by, pending_grants
from nextcloud_mcp_server.storage.outbox import insert_tokens, take_back
from nextcloud_mcp_server.storage.records import PendingGrant, PendingGrantState, Principal
from nextcloud_mcp_server.storage.tokens import dump_tokens, load_tokens
from nextcloud_mcp_server.storage.transaction import Transactions


class PendingGrantRepository:
    """Stores one pending grant per elicitation, for the browser that brought it; never loses a token.

    When a consent request ends unconfirmed, its grant is marked `discard`, and `release_due` moves it to the
    outbox.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def hold(
        self, pending_grant: PendingGrant, *, sign_in: str, note: str | None = None
    ) -> PendingGrantState:
        """Store a pending grant for this browser session; a previous one is discarded.

        If the consent request has ended meanwhile, or is another user's, the grant is discarded from the start.
        The row replaces `note`, the pending revocation in the outbox. If that is being carried out already,
        nothing is stored.
        """
        elicitation_hash, now = hash_of(pending_grant.elicitation_id), self._transactions.now()
        is_open = select(elicitations.c.id_hash).where(
            elicitations.c.id_hash == elicitation_hash,
            owned_by(elicitations.c, pending_grant.principal),
            active,
            elicitations.c.expires_at > now,
        )
        async with self._transactions.writing() as connection:
            if not await take_back(connection, note, now=now):
                return PendingGrantState.NOT_STORED
            waits = await connection.scalar(is_open) is not None
            if waits:
                await discard_pending_grants(connection, [elicitation_hash])
            values = _values(self._transactions.keys, pending_grant)
            await connection.execute(
                insert(pending_grants).values(
                    {**values, "sign_in_hash": hash_of(sign_in), "discard": not waits}
                )
            )
        return PendingGrantState.WAITS if waits else PendingGrantState.DISCARDED

    async def find(self, elicitation_id: str, *, sign_in: str) -> PendingGrant | None:
        """Return the pending grant of this browser.

        `GrantRepository.complete` deletes it in the transaction that stores the credential, so confirming it
        needs no `take`.

        Raises:
            Unsealable: Its key is missing.
        """
        query = select(pending_grants).where(self._waiting(elicitation_id, sign_in))
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _pending_grant(self._transactions.keys, row)

    async def take(self, elicitation_id: str, *, sign_in: str) -> PendingGrant | None:
        """Take the pending grant of this browser; of concurrent callers, only one gets it and must revoke it.

        Raises:
            Unsealable: Its key is missing; the row stays.
        """
        taking = (
            delete(pending_grants).where(self._waiting(elicitation_id, sign_in)).returning(pending_grants)
        )
        async with self._transactions.writing() as connection:
            row = (await connection.execute(taking)).one_or_none()
            return None if row is None else _pending_grant(self._transactions.keys, row)

    async def discard(self, elicitation_id: str, *, sign_in: str) -> None:
        """Mark the pending grant of this browser to be revoked at Nextcloud: the account is not the user's."""
        async with self._transactions.writing() as connection:
            await _discard(connection, self._waiting(elicitation_id, sign_in))

    async def release_due(self, *, nextcloud_url: str) -> int:
        """Move discarded and expired pending grants to the outbox; return how many.

        A row that cannot be decrypted stays: its key may be restored.
        """
        keys, now = self._transactions.keys, self._transactions.now()
        query = select(pending_grants).where(
            or_(pending_grants.c.discard, pending_grants.c.expires_at <= now)
        )
        released = 0
        async with self._transactions.writing() as connection:
            for row in (await connection.execute(query)).all():
                with contextlib.suppress(Unsealable):
                    pending_grant = _pending_grant(keys, row)
                    await connection.execute(delete(pending_grants).where(pending_grants.c.id == row.id))
                    await insert_tokens(
                        connection,
                        keys,
                        principal=pending_grant.principal,
                        nextcloud_url=nextcloud_url,
                        provider=pending_grant.provider,
                        tokens=pending_grant.tokens,
                        due_at=now,
                    )
                    released += 1
        return released

    def _waiting(self, elicitation_id: str, sign_in: str) -> ColumnElement[bool]:
        return and_(
            pending_grants.c.elicitation_hash == hash_of(elicitation_id),
            pending_grants.c.sign_in_hash == hash_of(sign_in),
            pending_grants.c.expires_at > self._transactions.now(),
            kept,
        )


async def discard_pending_grants(connection: AsyncConnection, elicitation_hashes: Collection[str]) -> None:
    """Mark the pending grants of these elicitations to be revoked at Nextcloud."""
    await _discard(connection, pending_grants.c.elicitation_hash.in_(elicitation_hashes))


async def discard_pending_grants_of_sign_in(connection: AsyncConnection, sign_in_hash: str) -> None:
    """Mark the pending grants of a browser session to be revoked: they cannot be confirmed any more."""
    await _discard(connection, pending_grants.c.sign_in_hash == sign_in_hash)


async def discard_pending_grants_of_user(connection: AsyncConnection, principal: Principal) -> None:
    """Mark all pending grants of a user to be revoked at Nextcloud."""
    await _discard(connection, owned_by(pending_grants.c, principal))


async def use_pending_grant(
    connection: AsyncConnection, keys: KeyRing, elicitation_hash: str, used: SecretStr
) -> None:
    """Delete the pending grant that was stored with this access token; discard any other one."""
    query = select(pending_grants).where(pending_grants.c.elicitation_hash == elicitation_hash, kept)
    row = (await connection.execute(query)).one_or_none()
    if row is not None:
        with contextlib.suppress(Unsealable):
            if _pending_grant(keys, row).tokens.access_token == used:
                await connection.execute(delete(pending_grants).where(pending_grants.c.id == row.id))
        await discard_pending_grants(connection, [elicitation_hash])


async def _discard(connection: AsyncConnection, which: ColumnElement[bool]) -> None:
    await connection.execute(update(pending_grants).where(which, kept).values(discard=True))


def _values(keys: KeyRing, pending_grant: PendingGrant) -> dict[str, object]:
    row_id = uuid.uuid4().hex
    seal = keys.at("pending_grants", pending_grant.principal, row_id)
    return {
        "id": row_id,
        "issuer": pending_grant.principal.issuer,
        "subject": pending_grant.principal.subject,
        "elicitation_hash": hash_of(pending_grant.elicitation_id),
        "elicitation_id": seal.seal("elicitation_id", pending_grant.elicitation_id),
        "scopes": pending_grant.scopes,
        "provider": pending_grant.provider,
        "tokens": seal.seal("tokens", dump_tokens(pending_grant.tokens).get_secret_value()),
        "uid": seal.seal("uid", pending_grant.uid),
        "display_name": seal.seal("display_name", pending_grant.display_name),
        "storage_id": seal.seal_optional("storage_id", pending_grant.storage_id),
        "expires_at": pending_grant.expires_at,
    }


def _pending_grant(keys: KeyRing, row: Row[Any]) -> PendingGrant:
    principal = Principal(issuer=row.issuer, subject=row.subject)
    seal = keys.at("pending_grants", principal, row.id)
    return PendingGrant(
        elicitation_id=seal.open("elicitation_id", row.elicitation_id),
        principal=principal,
        scopes=row.scopes,
        provider=row.provider,
        tokens=load_tokens(SecretStr(seal.open("tokens", row.tokens))),
        uid=seal.open("uid", row.uid),
        display_name=seal.open("display_name", row.display_name),
        storage_id=seal.open_optional("storage_id", row.storage_id),
        expires_at=row.expires_at,
    )
