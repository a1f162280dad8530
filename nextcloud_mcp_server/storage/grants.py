"""Grants: a user's account, its credential, and the permission of each client."""

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import ColumnElement, and_, bindparam, delete, exists, false, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.audit import insert_entries
from nextcloud_mcp_server.storage.consent import Change, GrantTransaction
from nextcloud_mcp_server.storage.crypto import hash_of, readable
from nextcloud_mcp_server.storage.elicitations import end_own_of_client
from nextcloud_mcp_server.storage.grant_row import (
    CREDENTIAL,
    PERMISSION,
    open_credential,
    open_grant,
    open_grant_or_blank,
    open_permission,
    select_grants,
)
from nextcloud_mcp_server.storage.models import accounts, credentials, elicitations, owned_by, permissions
from nextcloud_mcp_server.storage.oauth_records import CompletedTransaction
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    Elicitation,
    ElicitationState,
    Grant,
    LoginFlow,
    Permission,
    Principal,
    Tokens,
)
from nextcloud_mcp_server.storage.tasks import end_tasks
from nextcloud_mcp_server.storage.token_families import end_tokens
from nextcloud_mcp_server.storage.token_refresh import CredentialRefresh, revoke
from nextcloud_mcp_server.storage.transaction import Transactions

# Every tool call runs this query, so it is built once.
_FIND = select_grants(permissions.c.client_id == bindparam("client_id")).where(
    accounts.c.issuer == bindparam("issuer"), accounts.c.subject == bindparam("subject")
)


class GrantRepository:
    """Stores one account and one credential per user, and one permission per user and client."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def find(self, principal: Principal, client_id: str) -> Grant | None:
        """Return a client's grant, in one query; None if the user is not connected.

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
        """Turn a completed consent request into a grant, in one transaction.

        False, and nothing stored, if the elicitation is not open any more. A credential that is replaced goes
        to the outbox. Without a flow the credential may be an older one, and never replaces a newer one. A
        pending grant of this elicitation is used up.

        Raises:
            WrongAccount: The user is pinned to another account, or the account to another user.
        """
        change = Change(
            flow=flow,
            account=account,
            credential=credential,
            permission=permission,
            audit=audit,
        )
        async with self._transactions.writing() as connection:
            return await GrantTransaction(
                connection, self._transactions.keys, self._transactions.now()
            ).apply(elicitation, change)

    async def is_complete(self, elicitation_id: str, credential_id: str) -> bool:
        """Tell whether a consent request is complete, and its credential stored."""
        complete = elicitations.c.state == ElicitationState.COMPLETE
        query = select(credentials.c.id).where(
            credentials.c.id == credential_id,
            exists().where(elicitations.c.id_hash == hash_of(elicitation_id), complete),
        )
        async with self._transactions.reading() as connection:
            return await connection.scalar(query) is not None

    async def connect(
        self,
        completed: CompletedTransaction,
        *,
        account: Account,
        credential: Credential,
        permission: Permission,
        audit: AuditEntry,
        browser: str,
    ) -> bool:
        """Turn a completed authorization transaction into a grant, in one transaction.

        False, and nothing stored, if this browser does not hold it any more. Tokens that were stored before are
        not stored again. A credential that is replaced goes to the outbox. The user who signed in has the
        account: another principal's grant of it, from before the server's URL changed, ends.
        """
        change = Change(flow=None, account=account, credential=credential, permission=permission, audit=audit)
        async with self._transactions.writing() as connection:
            consent = GrantTransaction(connection, self._transactions.keys, self._transactions.now())
            return await consent.apply_callback(completed, change, browser)

    async def end_former_user(self, principal: Principal, storage_id: str | None, audit: AuditEntry) -> bool:
        """Compare the account's storage id with the stored one; if it differs, end the former user's access.

        A user who was deleted and re-created has the uid of the former one, and must inherit nothing. Returns
        whether that was so. Without a storage id from Nextcloud, nothing is compared.
        """
        if storage_id is None:
            return False
        async with self._transactions.writing() as connection:
            consent = GrantTransaction(connection, self._transactions.keys, self._transactions.now())
            return await consent.end_former_user(principal, storage_id, audit)

    async def mark_needs_reauth(
        self, credential_id: str, *, version: int, end_after: timedelta | None = None
    ) -> bool:
        """Stop all use of a credential that Nextcloud refused; False if it has changed since.

        With `end_after` it goes to the outbox, to be revoked at Nextcloud after that time: a credential that is
        given up here must not stay valid there, in case Nextcloud refused it by mistake.
        """
        async with self._transactions.writing() as connection:
            given_up = None if end_after is None else await self._opened(connection, credential_id)
            marked = await connection.execute(
                update(credentials)
                .where(credentials.c.id == credential_id, credentials.c.version == version)
                # The other tokens were tried before, and are as dead.
                .values(needs_reauth=True, alternate=None, version=credentials.c.version + 1)
            )
            if given_up is not None and end_after is not None and marked.rowcount:
                due_at = self._transactions.now() + end_after
                await revoke(
                    connection, self._transactions.keys, given_up.account, given_up.credential, due_at
                )
        return marked.rowcount == 1

    async def _opened(self, connection: AsyncConnection, credential_id: str) -> Grant | None:
        query = select_grants(false()).where(credentials.c.id == credential_id)
        row = (await connection.execute(query)).one_or_none()
        with contextlib.suppress(Unsealable):
            return None if row is None else open_grant(self._transactions.keys, row)
        return None

    async def credential(self, credential_id: str) -> Credential | None:
        """Return a credential as it is now; None if it is gone.

        For a process that waits for another's refresh.

        Raises:
            Unsealable: Its key is missing.
        """
        query = select(credentials.c.issuer, credentials.c.subject, *CREDENTIAL).where(
            credentials.c.id == credential_id
        )
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            return None
        return open_credential(self._transactions.keys, Principal(row.issuer, row.subject), row)

    async def lease(self, credential_id: str, *, owner: str, lease: timedelta) -> Credential | None:
        """Lease a credential for a refresh, and return it as it is now.

        None while another process holds the lease, or if the credential is gone. The holder may lease it again.

        Raises:
            Unsealable: Its key is missing.
        """
        async with self._renewing() as renewal:
            return await renewal.lease(credential_id, owner=owner, lease=lease)

    async def store_refreshed(self, credential_id: str, *, version: int, tokens: Tokens) -> bool:
        """Replace the tokens if the version is unchanged, and release the lease.

        A refresh token is kept if the answer has none (RFC 6749 §6). An invalid credential becomes valid again:
        a late answer was kept for it. False, and nothing stored, if another process refreshed first, if the
        credential was refused meanwhile, or if it is gone: then call `keep_alternate` with the tokens.
        """
        async with self._renewing() as renewal:
            return await renewal.store(credential_id, version=version, tokens=tokens)

    async def keep_alternate(self, credential_id: str, tokens: Tokens) -> bool:
        """Store the tokens of a late answer, to be tried once when the stored tokens are invalid.

        False if the credential is gone: then call `abandon` with the tokens.
        """
        async with self._renewing() as renewal:
            return await renewal.keep_alternate(credential_id, tokens)

    async def abandon(self, credential: Credential, tokens: Tokens) -> None:
        """Put tokens of a credential that is gone into the outbox, to be revoked."""
        async with self._renewing() as renewal:
            await renewal.abandon(credential, tokens)

    async def release(self, credential_id: str, *, owner: str, retry_at: datetime | None) -> None:
        """Release the lease without new tokens; no effect if the lease was lost.

        After a temporary failure no process refreshes before `retry_at`.
        """
        async with self._renewing() as renewal:
            await renewal.release(credential_id, owner=owner, retry_at=retry_at)

    @asynccontextmanager
    async def _renewing(self) -> AsyncGenerator[CredentialRefresh]:
        async with self._transactions.writing() as connection:
            yield CredentialRefresh(connection, self._transactions.keys, self._transactions.now())

    async def disconnect(self, principal: Principal, *, audit: AuditEntry) -> Grant | None:
        """Delete everything a user granted, in one transaction; None if there was nothing.

        The credential goes to the outbox, to be revoked at Nextcloud. The account stays, so that its uid stays
        pinned. If its key is missing, the sealed fields of the result are empty, and the user must delete the
        app password at Nextcloud.
        """
        query = select_grants(false()).where(owned_by(accounts.c, principal))
        async with self._transactions.writing() as connection:
            row = (await connection.execute(query)).one_or_none()
            grant = None if row is None else open_grant_or_blank(self._transactions.keys, row)
            ending = GrantTransaction(connection, self._transactions.keys, self._transactions.now())
            await ending.withdraw(principal, grant, audit)
        return grant

    async def permissions(self, principal: Principal) -> list[Permission]:
        """Return the permissions of each client of a user, without those whose key is missing."""
        query = (
            select(*PERMISSION)
            .where(owned_by(permissions.c, principal))
            .order_by(permissions.c.granted_at, permissions.c.client_id)
        )
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        return readable(rows, partial(open_permission, self._transactions.keys, principal))

    async def set_scopes(self, principal: Principal, client_id: str, scopes: frozenset[str]) -> None:
        """Replace the scopes of a client; its tasks end, since they may have used a scope that it loses."""
        await self._update_permission(principal, client_id, {"scopes": scopes}, ends_tasks=True)

    async def set_paused(self, principal: Principal, client_id: str, paused: bool) -> None:  # noqa: FBT001 (read from the page's form)
        """Pause or resume a client, without changing its scopes; a pause ends its tasks."""
        await self._update_permission(principal, client_id, {"paused": paused}, ends_tasks=paused)

    async def end_client(self, principal: Principal, client_id: str, *, audit: AuditEntry) -> bool:
        """Delete the access of one client of a user, in one transaction; False if it had no permission.

        That is its permission, the tokens and codes that this server issued to it, its tasks and its open consent
        requests. The user's connection to Nextcloud and the other clients stay.
        """
        mine = and_(owned_by(permissions.c, principal), permissions.c.client_id == client_id)
        keys, now = self._transactions.keys, self._transactions.now()
        async with self._transactions.writing() as connection:
            ended = await connection.execute(delete(permissions).where(mine))
            await end_own_of_client(connection, principal, client_id)
            await end_tasks(connection, principal, client_id)
            await end_tokens(
                connection,
                keys,
                principal,
                client_id=client_id,
                now=now,
                why="ended: the app was disconnected",
            )
            if ended.rowcount:
                await insert_entries(connection, keys, [audit])
        return ended.rowcount == 1

    async def touch(self, principal: Principal, client_id: str, at: datetime) -> None:
        """Record when a client was last used; an earlier time than the stored one changes nothing."""
        later = or_(permissions.c.last_used_at.is_(None), permissions.c.last_used_at < at)
        await self._update_permission(principal, client_id, {"last_used_at": at}, later)

    async def all(self) -> list[Grant]:
        """Return every grant, one per user and client, for the operator.

        Those that cannot be decrypted are left out.
        """
        query = select_grants(true()).order_by(accounts.c.created_at, accounts.c.id, permissions.c.client_id)
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        return readable(rows, partial(open_grant, self._transactions.keys))

    async def count_connections(self) -> tuple[int, int]:
        """Return how many users are connected, and how many must consent again because Nextcloud refuses theirs."""
        query = select(credentials.c.needs_reauth, func.count()).group_by(credentials.c.needs_reauth)
        async with self._transactions.reading() as connection:
            counts = {bool(refused): count for refused, count in (await connection.execute(query)).all()}
        return counts.get(False, 0), counts.get(True, 0)

    async def _update_permission(
        self,
        principal: Principal,
        client_id: str,
        values: dict[str, object],
        *conditions: ColumnElement[bool],
        ends_tasks: bool = False,
    ) -> None:
        async with self._transactions.writing() as connection:
            if ends_tasks:
                await end_tasks(connection, principal, client_id)
            await connection.execute(
                update(permissions)
                .where(owned_by(permissions.c, principal), permissions.c.client_id == client_id, *conditions)
                .values(values)
            )
