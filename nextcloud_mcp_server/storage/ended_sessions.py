"""Sessions of clients that ended: a sealed session id works at every replica until its time is over, or until here."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import (
    Column,
    Delete,
    Named,
    String,
    Table,
    TypedColumns,
    and_,
    delete,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage.columns import UtcTime
from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.models import metadata
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.transaction import Transactions


class EndedSessionColumns(TypedColumns):
    """A session of a client that ended, or all earlier ones of a user: the hash is then of the principal."""

    session_hash: Named[str] = Column(String, primary_key=True)
    ended_at: Named[datetime] = Column(UtcTime)
    expires_at: Named[datetime] = Column(UtcTime, index=True)


ended_sessions = Table("ended_sessions", metadata, EndedSessionColumns)


class EndedSessionRepository:
    """Stores the hashes of ended sessions until their ids are no longer valid."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def end(self, session_id: str, *, expires_at: datetime) -> None:
        """Store a session as ended; its id is valid until `expires_at`."""
        async with self._transactions.writing() as connection:
            await _end(connection, hash_of(session_id), self._transactions.now(), expires_at)

    async def end_all(self, principal: Principal, *, expires_at: datetime) -> None:
        """Store all sessions as ended that a principal has begun until now; the ids are valid until `expires_at`."""
        async with self._transactions.writing() as connection:
            await end_sessions(connection, principal, now=self._transactions.now(), expires_at=expires_at)

    async def is_ended(self, session_id: str, principal: Principal, *, begun_at: datetime) -> bool:
        """Tell whether a session ended, by itself or with all that the principal had begun."""
        columns = ended_sessions.c
        query = select(columns.session_hash).where(
            or_(
                columns.session_hash == hash_of(session_id),
                and_(columns.session_hash == _hash_of(principal), columns.ended_at >= begun_at),
            )
        )
        async with self._transactions.reading() as connection:
            return (await connection.execute(query)).first() is not None

    async def ended_of(self, sessions: Collection[tuple[str, Principal, datetime]]) -> list[str]:
        """Return those of a few sessions that ended; each is an id, its principal, and when it was begun."""
        columns = ended_sessions.c
        hashes = {hash_of(session_id) for session_id, _, _ in sessions}
        hashes |= {_hash_of(principal) for _, principal, _ in sessions}
        query = select(columns.session_hash, columns.ended_at).where(columns.session_hash.in_(hashes))
        async with self._transactions.reading() as connection:
            ended = {row.session_hash: row.ended_at for row in (await connection.execute(query)).all()}

        def is_ended(session_id: str, principal: Principal, begun_at: datetime) -> bool:
            of_all = ended.get(_hash_of(principal))
            return hash_of(session_id) in ended or (of_all is not None and of_all >= begun_at)

        return [each[0] for each in sessions if is_ended(*each)]

    async def purge(self) -> None:
        """Delete the rows whose session ids are no longer valid."""
        async with self._transactions.writing() as connection:
            await connection.execute(_expired(self._transactions.now()))


async def end_sessions(
    connection: AsyncConnection, principal: Principal, *, now: datetime, expires_at: datetime
) -> None:
    """Store all sessions as ended that a principal has begun until now, in the caller's transaction."""
    await _end(connection, _hash_of(principal), now, expires_at)


async def _end(connection: AsyncConnection, session_hash: str, now: datetime, expires_at: datetime) -> None:
    """Store a hash, or the later end of one that is stored; delete the rows that have expired."""
    columns, values = ended_sessions.c, {"ended_at": now, "expires_at": expires_at}
    await connection.execute(_expired(now))
    # Transactions that write wait for each other, so no other one inserts the same hash meanwhile.
    known = update(ended_sessions).where(columns.session_hash == session_hash).values(values)
    if not (await connection.execute(known)).rowcount:
        await connection.execute(insert(ended_sessions).values(session_hash=session_hash, **values))


def _expired(now: datetime) -> Delete:
    return delete(ended_sessions).where(ended_sessions.c.expires_at <= now)


def _hash_of(principal: Principal) -> str:
    # No session id has a space or a line break.
    return hash_of(f"all of\n{principal.issuer}\n{principal.subject}")
