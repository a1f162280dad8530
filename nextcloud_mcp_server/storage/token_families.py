"""Token families: all tokens of one code, which end together. Within the caller's transaction."""

from datetime import datetime

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage.audit import insert_entries
from nextcloud_mcp_server.storage.authorization_transactions import end_auth_transactions
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.models import (
    access_tokens,
    auth_transactions,
    codes,
    owned_by,
    token_families,
)
from nextcloud_mcp_server.storage.records import AuditEntry, Principal
from nextcloud_mcp_server.storage.tasks import end_tasks

ACTION = "tokens"


async def end_families(
    connection: AsyncConnection,
    keys: KeyRing,
    which: ColumnElement[bool],
    *,
    now: datetime,
    why: str,
    ends_tasks: bool = True,
) -> int:
    """End families, with an audit entry for each; return how many there were.

    The tasks of their clients end, too: one may be the work of a party that should not have had the tokens.
    """
    theirs = select(token_families.c.family_hash).where(which)
    await connection.execute(delete(access_tokens).where(access_tokens.c.family_hash.in_(theirs)))
    ended = await connection.execute(
        delete(token_families)
        .where(which)
        .returning(token_families.c.issuer, token_families.c.subject, token_families.c.client_id)
    )
    entries = [
        AuditEntry(
            at=now,
            principal=Principal(issuer=row.issuer, subject=row.subject),
            client_id=row.client_id,
            action=ACTION,
            result=why,
        )
        for row in ended.all()
    ]
    if entries:
        await insert_entries(connection, keys, entries)
    for user, client_id in {(entry.principal, entry.client_id) for entry in entries if ends_tasks}:
        await end_tasks(connection, user, client_id)
    return len(entries)


async def end_tokens(
    connection: AsyncConnection,
    keys: KeyRing,
    principal: Principal,
    *,
    client_id: str | None = None,
    now: datetime,
    why: str,
) -> int:
    """End the codes and tokens of a user's clients, or of one client; return how many families that were.

    A browser that completed a sign-in for them a moment ago gets no other code: another human may use it now.
    """
    waiting, back = owned_by(codes.c, principal), owned_by(auth_transactions.c, principal)
    given = owned_by(token_families.c, principal)
    if client_id is not None:
        waiting &= codes.c.client_id == client_id
        back &= auth_transactions.c.client_id == client_id
        given &= token_families.c.client_id == client_id
    await connection.execute(delete(codes).where(waiting))
    await end_auth_transactions(connection, back, now=now)
    return await end_families(connection, keys, given, now=now, why=why)
