"""The clients and users that have tokens of the built-in authorization server."""

from collections.abc import Collection

from sqlalchemy import func, select

from nextcloud_mcp_server.storage.models import owned_by, token_families
from nextcloud_mcp_server.storage.oauth_records import Holder
from nextcloud_mcp_server.storage.records import Principal
from nextcloud_mcp_server.storage.transaction import Transactions


class TokenHolders:
    """Lists clients and counts users; changes nothing."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def holders(self, principal: Principal) -> list[Holder]:
        """Return the clients that hold valid tokens of a user, those with the earliest sign-in first."""
        families = token_families.c
        since = func.min(families.created_at)
        query = (
            select(families.client_id, since.label("since"), func.max(families.rotated_at).label("last"))
            .where(owned_by(families, principal), families.expires_at > self._transactions.now())
            .group_by(families.client_id)
            .order_by(since, families.client_id)
        )
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [Holder(row.client_id, row.since, row.last) for row in rows]

    async def living(self, family_hashes: Collection[str]) -> frozenset[str]:
        """Return those of these families of tokens that have not ended."""
        if not family_hashes:
            return frozenset()
        families = token_families.c
        query = select(families.family_hash).where(
            families.family_hash.in_(family_hashes), families.expires_at > self._transactions.now()
        )
        async with self._transactions.reading() as connection:
            return frozenset((await connection.execute(query)).scalars().all())

    async def count_users(self) -> dict[str, int]:
        """Count the users of whom each client holds valid tokens, by the client's id."""
        families = token_families.c
        holding = (
            select(families.client_id, families.issuer, families.subject)
            .where(families.expires_at > self._transactions.now())
            .distinct()
            .subquery()
        )
        query = select(holding.c.client_id, func.count()).group_by(holding.c.client_id)
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        return {row[0]: row[1] for row in rows}
