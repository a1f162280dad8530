"""The Nextcloud accounts and their principals, for the operator."""

from sqlalchemy import select

from nextcloud_mcp_server.storage.consent import GrantTransaction
from nextcloud_mcp_server.storage.models import accounts, credentials
from nextcloud_mcp_server.storage.records import RELEASED, AuditEntry, Holding, Principal
from nextcloud_mcp_server.storage.transaction import Transactions


class AccountRepository:
    """Lists and releases accounts. A key is only needed if a credential must be revoked at Nextcloud."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def all(self) -> list[Holding]:
        """Return every account, ordered by uid."""
        connected = (
            select(credentials.c.id)
            .where(credentials.c.account_id == accounts.c.id)
            .exists()
            .label("connected")
        )
        query = select(
            accounts.c.issuer,
            accounts.c.subject,
            accounts.c.nextcloud_url,
            accounts.c.uid,
            accounts.c.mapped,
            accounts.c.created_at,
            connected,
        ).order_by(accounts.c.uid, accounts.c.nextcloud_url)
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        return [
            Holding(
                principal=Principal(row.issuer, row.subject),
                nextcloud_url=row.nextcloud_url,
                uid=row.uid,
                mapped=row.mapped,
                connected=bool(row.connected),
                created_at=row.created_at,
            )
            for row in rows
        ]

    async def release(self, holding: Holding) -> bool:
        """End all access of an account's principal and delete the account; False if it changed meanwhile.

        It has changed if the principal does not hold it any more. Any principal may connect the account
        afterwards. The credential goes to the outbox, and the release into the audit log.
        """
        now = self._transactions.now()
        query = select(accounts.c.id).where(
            accounts.c.issuer == holding.principal.issuer,
            accounts.c.subject == holding.principal.subject,
            accounts.c.nextcloud_url == holding.nextcloud_url,
            accounts.c.uid == holding.uid,
        )
        audit = AuditEntry(now, holding.principal, "", "account", RELEASED, holding.uid)
        async with self._transactions.writing() as connection:
            account_id = await connection.scalar(query)
            if account_id is not None:
                await GrantTransaction(connection, self._transactions.keys, now).release(
                    account_id, holding.principal, audit
                )
        return account_id is not None
