"""Logouts that the issuer reported: of a user, or of one of their sessions there."""

from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.models import grant_requests, logouts, sign_ins
from nextcloud_mcp_server.storage.pending_grants import discard_pending_grants_of_sign_in
from nextcloud_mcp_server.storage.records import Logout
from nextcloud_mcp_server.storage.transaction import Transactions


class LogoutRepository:
    """Stores logouts by the id of their token, so that each counts once, for as long as tokens may live."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(self, jti: str, logout: Logout, *, expires_at: datetime) -> bool:
        """Store a logout and end the browser sessions that it names; False if it was stored before."""
        jti_hash = hash_of(f"{logout.issuer} {jti}")
        async with self._transactions.writing() as connection:
            known = select(logouts.c.jti_hash).where(logouts.c.jti_hash == jti_hash)
            if await connection.scalar(known) is not None:
                return False
            await connection.execute(
                insert(logouts).values(
                    jti_hash=jti_hash,
                    issuer=logout.issuer,
                    sub_hash=logout.sub_hash,
                    sid_hash=logout.sid_hash,
                    issued_at=logout.issued_at,
                    received_at=logout.received_at,
                    expires_at=expires_at,
                )
            )
            await _end_sign_ins(connection, logout)
        return True

    async def since(self, received_at: datetime) -> list[Logout]:
        """Return the logouts received at this time or later, the earliest first."""
        columns = logouts.c
        query = select(logouts).where(columns.received_at >= received_at).order_by(columns.received_at)
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [
            Logout(row.issuer, row.sub_hash, row.sid_hash, row.issued_at, row.received_at) for row in rows
        ]

    async def purge(self) -> None:
        """Delete logouts that are older than any valid token."""
        async with self._transactions.writing() as connection:
            await connection.execute(delete(logouts).where(logouts.c.expires_at <= self._transactions.now()))


async def _end_sign_ins(connection: AsyncConnection, logout: Logout) -> None:
    gone = await connection.execute(
        delete(sign_ins)
        .where(sign_ins.c.issuer == logout.issuer, _meant(logout))
        .returning(sign_ins.c.token_hash)
    )
    for token_hash in gone.scalars().all():
        await connection.execute(delete(grant_requests).where(grant_requests.c.sign_in_hash == token_hash))
        await discard_pending_grants_of_sign_in(connection, token_hash)


def _meant(logout: Logout) -> ColumnElement[bool]:
    """Build the condition for the browser sessions of a logout.

    A session for which the issuer named no `sid` at the sign-in is selected by its user.
    """
    of_person = sign_ins.c.sub_hash == logout.sub_hash
    if logout.sid_hash is None:
        return of_person
    of_session = sign_ins.c.sid_hash == logout.sid_hash
    if logout.sub_hash is None:
        return of_session
    return or_(of_session, and_(of_person, sign_ins.c.sid_hash.is_(None)))
