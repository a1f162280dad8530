"""Removes what a restored backup must not bring back: ended sessions, used codes, answered requests."""

from dataclasses import dataclass

from sqlalchemy import delete, true, update

from nextcloud_mcp_server.storage.authorization_transactions import end_auth_transactions
from nextcloud_mcp_server.storage.elicitations import end_of_every_user
from nextcloud_mcp_server.storage.models import (
    access_tokens,
    codes,
    grant_requests,
    pending_grants,
    sign_ins,
)
from nextcloud_mcp_server.storage.tasks import tasks
from nextcloud_mcp_server.storage.token_families import end_families
from nextcloud_mcp_server.storage.transaction import Transactions


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many sign-ins of clients and of browsers were ended."""

    clients: int
    browsers: int


class PostRestoreRepository:
    """Works on all users' rows, for the operator who has just restored a backup."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def forget(self, *, why: str = "ended: a backup was put back") -> Forgotten:
        """End every token, code, sign-in, task and open request, in one transaction; `why` is for the audit.

        Grants and permissions stay; pending grants are revoked at Nextcloud.
        """
        keys, now = self._transactions.keys, self._transactions.now()
        async with self._transactions.writing() as connection:
            await connection.execute(delete(codes))
            clients = await end_families(connection, keys, true(), now=now, why=why)
            await connection.execute(delete(access_tokens))
            browsers = await connection.execute(delete(sign_ins))
            await connection.execute(delete(grant_requests))
            await connection.execute(delete(tasks))
            await connection.execute(update(pending_grants).values(discard=True))
            await end_auth_transactions(connection, true(), now=now)
            await end_of_every_user(connection)
        return Forgotten(clients, browsers.rowcount)
