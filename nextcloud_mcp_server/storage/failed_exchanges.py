"""Failed code exchanges: codes that the provider refused, counted before another code is sent."""

import uuid
from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, insert, select

from nextcloud_mcp_server.storage.corrected_clock import has_happened
from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.models import failed_exchanges, owned_by
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.transaction import Transactions


class FailedExchangeRepository:
    """Counts failures: after ten from one address, Nextcloud refuses that address's valid requests too."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def failed(self, principal: Principal, *, sign_in: str, source: str = "") -> None:
        """Record a failure of this user and this browser session; `source` is a keyed hash of the network."""
        values = {
            "issuer": principal.issuer,
            "subject": principal.subject,
            "id": uuid.uuid4().hex,
            "sign_in_hash": hash_of(sign_in),
            "source": source or None,
            "at": self._transactions.now(),
        }
        async with self._transactions.writing() as connection:
            await connection.execute(insert(failed_exchanges).values(values))

    async def count(
        self,
        *,
        since: datetime,
        principal: Principal | None = None,
        sign_in: str | None = None,
        source: str | None = None,
    ) -> int:
        """Count failures: all, or only those of a user, a browser session or a source.

        Those that a clock wrote that has been corrected since, and that are ahead of now, do not count.
        """
        conditions: list[ColumnElement[bool]] = [
            failed_exchanges.c.at >= since,
            has_happened(failed_exchanges.c.at, self._transactions.now()),
        ]
        if principal is not None:
            conditions.append(owned_by(failed_exchanges.c, principal))
        if sign_in is not None:
            conditions.append(failed_exchanges.c.sign_in_hash == hash_of(sign_in))
        if source is not None:
            conditions.append(failed_exchanges.c.source == source)
        query = select(func.count()).select_from(failed_exchanges).where(*conditions)
        async with self._transactions.reading() as connection:
            return (await connection.execute(query)).scalar_one()

    async def purge(self, *, before: datetime) -> None:
        """Delete failures from before a time."""
        async with self._transactions.writing() as connection:
            await connection.execute(delete(failed_exchanges).where(failed_exchanges.c.at < before))
