"""Spent codes: authorization codes that this server does not exchange for a user any more.

A code of Nextcloud's own OAuth2 app is bound to no browser and no `state`: any browser that brings it to a
callback of its own gets the account it opens. So each code that came to a callback and was not used is stored
until it has expired.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.models import spent_codes
from nextcloud_mcp_server.storage.transaction import Transactions

#: Longer than any code lives: ten minutes at Nextcloud, and at most that elsewhere (RFC 6749 §4.1.2).
KEPT: Final = timedelta(hours=1)


class SpentCodeRepository:
    """Stores the hashes of spent codes."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def spend(self, codes: Iterable[str]) -> None:
        """Store these codes as spent."""
        if not (given := list(codes)):
            return
        async with self._transactions.writing() as connection:
            await insert_spent(connection, given, now=self._transactions.now())

    async def is_spent(self, code: str) -> bool:
        """Tell whether a code is spent."""
        query = select(spent_codes.c.code_hash).where(spent_codes.c.code_hash == hash_of(code))
        async with self._transactions.reading() as connection:
            return (await connection.execute(query)).first() is not None


async def insert_spent(connection: AsyncConnection, codes: Iterable[str], *, now: datetime) -> None:
    """Store spent codes within the caller's transaction, and delete those that have expired."""
    await connection.execute(delete(spent_codes).where(spent_codes.c.expires_at <= now))
    hashes = {hash_of(code) for code in codes}
    # Transactions that write wait for each other, so no other one inserts the same code meanwhile.
    known = select(spent_codes.c.code_hash).where(spent_codes.c.code_hash.in_(hashes))
    hashes -= set((await connection.execute(known)).scalars())
    if hashes:
        rows = [{"code_hash": each, "expires_at": now + KEPT} for each in sorted(hashes)]
        await connection.execute(insert(spent_codes), rows)
