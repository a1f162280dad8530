"""Grants: a person's account, its credential, and what each client may do with it."""

import contextlib
from datetime import datetime

from sqlalchemy import ColumnElement, bindparam, false, or_, select, true, update

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.consent import Change, Consent
from nextcloud_mcp_server.storage.grant_row import (
    PERMISSION,
    open_grant,
    open_grant_or_blank,
    open_permission,
    select_grants,
)
from nextcloud_mcp_server.storage.models import accounts, credentials, owned_by, permissions
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    Elicitation,
    Grant,
    LoginFlow,
    Permission,
    Principal,
)
from nextcloud_mcp_server.storage.transaction import Transactions

# Every call of every tool asks this, so it is put together once.
_FIND = select_grants(permissions.c.client_id == bindparam("client_id")).where(
    accounts.c.issuer == bindparam("issuer"), accounts.c.subject == bindparam("subject")
)


class GrantRepository:
    """Keeps one account and one credential per person, and one permission per person and client."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def find(self, principal: Principal, client_id: str) -> Grant | None:
        """Find what a client may use, in one query; None when the person is not connected.

        Raises:
            Unsealable: Its key is missing.
        """
        values = {"issuer": principal.issuer, "subject": principal.subject, "client_id": client_id}
        async with self._transactions.reading() as connection:
            row = (await connection.execute(_FIND, values)).one_or_none()
        return None if row is None else open_grant(self._transactions.keys, row)

    async def complete(
        self,
        *,
        elicitation: Elicitation,
        flow: LoginFlow | None,
        account: Account,
        credential: Credential,
        permission: Permission,
        audit: AuditEntry,
    ) -> bool:
        """Turn a finished visit into a grant, in one transaction.

        False, and nothing stored, when the elicitation is not open any more. A credential that is
        replaced goes to the outbox. Without a flow the credential is one that was read before, and
        never takes the place of a newer one.

        Raises:
            WrongAccount: The person is pinned to another account, or the account to another person.
        """
        change = Change(
            elicitation=elicitation,
            flow=flow,
            account=account,
            credential=credential,
            permission=permission,
            audit=audit,
        )
        async with self._transactions.writing() as connection:
            return await Consent(connection, self._transactions.keys, self._transactions.now()).apply(change)

    async def mark_needs_reauth(self, credential_id: str, *, version: int) -> bool:
        """Stop all use of a credential that Nextcloud refused; False when it has changed since."""
        async with self._transactions.writing() as connection:
            marked = await connection.execute(
                update(credentials)
                .where(credentials.c.id == credential_id, credentials.c.version == version)
                .values(needs_reauth=True, version=credentials.c.version + 1)
            )
        return marked.rowcount == 1

    async def disconnect(self, principal: Principal, *, audit: AuditEntry) -> Grant | None:
        """Take back everything a person granted, in one transaction; None when there was nothing.

        The credential goes to the outbox, to be deleted at Nextcloud. The account stays, so that
        its uid stays pinned. When its key is missing the answer's sealed parts are empty, and the
        person has to delete the app password at Nextcloud.
        """
        query = select_grants(false()).where(owned_by(accounts.c, principal))
        async with self._transactions.writing() as connection:
            row = (await connection.execute(query)).one_or_none()
            grant = None if row is None else open_grant_or_blank(self._transactions.keys, row)
            ending = Consent(connection, self._transactions.keys, self._transactions.now())
            await ending.withdraw(principal, grant, audit)
        return grant

    async def permissions(self, principal: Principal) -> list[Permission]:
        """List what each client of a person may do, without those whose key is missing."""
        query = (
            select(*PERMISSION)
            .where(owned_by(permissions.c, principal))
            .order_by(permissions.c.granted_at, permissions.c.client_id)
        )
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        found: list[Permission] = []
        for row in rows:
            with contextlib.suppress(Unsealable):
                found.append(open_permission(self._transactions.keys, principal, row))
        return found

    async def set_scopes(self, principal: Principal, client_id: str, scopes: frozenset[str]) -> None:
        """Replace what a client may do."""
        await self._update_permission(principal, client_id, {"scopes": scopes})

    async def touch(self, principal: Principal, client_id: str, at: datetime) -> None:
        """Remember when a client was last used; an earlier time than the stored one changes nothing."""
        later = or_(permissions.c.last_used_at.is_(None), permissions.c.last_used_at < at)
        await self._update_permission(principal, client_id, {"last_used_at": at}, later)

    async def all(self) -> list[Grant]:
        """List every grant, one per person and client, for the operator; unreadable ones are left out."""
        query = select_grants(true()).order_by(accounts.c.created_at, accounts.c.id, permissions.c.client_id)
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        found: list[Grant] = []
        for row in rows:
            with contextlib.suppress(Unsealable):
                found.append(open_grant(self._transactions.keys, row))
        return found

    async def _update_permission(
        self,
        principal: Principal,
        client_id: str,
        values: dict[str, object],
        *conditions: ColumnElement[bool],
    ) -> None:
        async with self._transactions.writing() as connection:
            await connection.execute(
                update(permissions)
                .where(owned_by(permissions.c, principal), permissions.c.client_id == client_id, *conditions)
                .values(values)
            )
