"""The changes of granting consent and of withdrawing it, each within one transaction."""

import contextlib
import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, delete, false, insert, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import AccountTaken, Unsealable, WrongAccount
from nextcloud_mcp_server.storage.audit import insert_entries
from nextcloud_mcp_server.storage.authorization_transactions import end_auth_transactions, use_completed
from nextcloud_mcp_server.storage.crypto import KeyRing, hash_of
from nextcloud_mcp_server.storage.elicitations import end_all, settle
from nextcloud_mcp_server.storage.ended_sessions import end_sessions
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.grant_row import (
    CREDENTIAL,
    credential_values,
    open_credential,
    open_grant,
    select_grants,
)
from nextcloud_mcp_server.storage.login_flows import discard_flows
from nextcloud_mcp_server.storage.models import (
    accounts,
    auth_transactions,
    credentials,
    login_flows,
    owned_by,
    permissions,
)
from nextcloud_mcp_server.storage.oauth_records import CompletedTransaction
from nextcloud_mcp_server.storage.pending_grants import use_pending_grant
from nextcloud_mcp_server.storage.records import (
    DISPLACED,
    SESSION_LIFETIME,
    Account,
    AuditEntry,
    Credential,
    Elicitation,
    ElicitationState,
    Grant,
    LoginFlow,
    Permission,
    Principal,
)
from nextcloud_mcp_server.storage.sign_ins import end_started, sign_out_everywhere
from nextcloud_mcp_server.storage.tasks import end_tasks
from nextcloud_mcp_server.storage.token_families import end_tokens
from nextcloud_mcp_server.storage.token_refresh import revoke
from nextcloud_mcp_server.storage.tokens import has_tokens


@dataclass(frozen=True, slots=True)
class Change:
    """What a completed consent request stores, or a completed sign-in for a client."""

    flow: LoginFlow | None
    account: Account
    credential: Credential
    permission: Permission
    audit: AuditEntry


class GrantTransaction:
    """Stores and ends grants, in every mode, within the caller's database transaction."""

    def __init__(self, connection: AsyncConnection, keys: KeyRing, now: datetime) -> None:
        self._connection = connection
        self._keys = keys
        self._now = now

    async def apply(self, elicitation: Elicitation, change: Change) -> bool:
        """Store a grant; False, with nothing stored, if its elicitation is not open any more."""
        id_hash = hash_of(elicitation.id)
        if not await settle(
            self._connection,
            self._keys,
            principal=elicitation.principal,
            id_hash=id_hash,
            state=ElicitationState.COMPLETE,
            now=self._now,
            account_name=change.account.display_name or change.account.uid,
        ):
            return False
        await use_pending_grant(self._connection, self._keys, id_hash, change.credential.secret)
        await self._connect(change, may_change=await self._may_change(change))
        if change.flow is None:
            # A login flow of this request may have given an app password too; it is not needed.
            await discard_flows(self._connection, [id_hash])
        else:
            await self._connection.execute(delete(login_flows).where(login_flows.c.id == change.flow.id))
        return True

    async def apply_callback(self, completed: CompletedTransaction, change: Change, browser: str) -> bool:
        """Store the grant of a user who signed in for a client; False if the transaction has expired."""
        mine = await use_completed(self._connection, self._keys, completed, browser, now=self._now)
        if mine:
            await self._release_from_others(change.account)
            await self._connect(change, may_change=True)
        return mine is not None

    async def end_former_user(self, principal: Principal, storage_id: str, audit: AuditEntry) -> bool:
        """End all access of a former user of this uid, known by another storage id; False if there was none."""
        query = select(accounts.c.id, accounts.c.storage_id).where(owned_by(accounts.c, principal))
        known = (await self._connection.execute(query)).one_or_none()
        if known is None or known.storage_id in (None, storage_id):
            return False
        await self._end_everything(principal, audit)
        await self._connection.execute(
            update(accounts).where(accounts.c.id == known.id).values(storage_id=storage_id)
        )
        return True

    async def _release_from_others(self, account: Account) -> None:
        """Release an account from any other principal: the user who signs in with it at Nextcloud is its user.

        Another principal has it if this server had another URL before, or another way to sign in.
        """
        theirs = and_(accounts.c.nextcloud_url == account.nextcloud_url, accounts.c.uid == account.uid)
        query = select(accounts.c.id, accounts.c.issuer, accounts.c.subject).where(
            theirs, not_(owned_by(accounts.c, account.principal))
        )
        row = (await self._connection.execute(query)).one_or_none()
        if row is not None:
            await self._take_over(row, account.principal)

    async def _take_over(self, row: Row[*tuple[Any, ...]], principal: Principal) -> None:
        """Release an account from its former principal, for this one."""
        former, detail = Principal(row.issuer, row.subject), f"{principal.issuer} {principal.subject}"
        ended = AuditEntry(self._now, former, "", "account", DISPLACED, detail)
        await self.release(row.id, former, ended)

    async def release(self, account_id: str, principal: Principal, audit: AuditEntry) -> None:
        """End all access of an account's principal, and delete the account.

        Any principal may connect it afterwards.
        """
        await self._end_everything(principal, audit)
        await self._connection.execute(delete(accounts).where(accounts.c.id == account_id))

    async def _may_be_taken(self, row: Row[*tuple[Any, ...]], account: Account) -> bool:
        """Tell whether an account's principal loses it to another principal that was given access to it.

        It does if its user has disconnected. It also does if the operator's mapping names the account for the
        new principal, and the former user only confirmed the account, or has an issuer that is not configured
        any more.
        """
        credential = select(credentials.c.id).where(credentials.c.account_id == row.id)
        if await self._connection.scalar(credential) is None:
            return True
        return account.mapped and (not row.mapped or row.issuer != account.principal.issuer)

    async def _end_everything(self, principal: Principal, audit: AuditEntry) -> None:
        grants = select_grants(false()).where(owned_by(accounts.c, principal))
        grant = (await self._connection.execute(grants)).one_or_none()
        opened = None
        if grant is not None:
            with contextlib.suppress(Unsealable):
                opened = open_grant(self._keys, grant)
        await self.withdraw(principal, opened, audit)
        # Those that no process has open now could be taken up again.
        until = self._now + SESSION_LIFETIME
        await end_sessions(self._connection, principal, now=self._now, expires_at=until)
        await sign_out_everywhere(self._connection, principal)
        await end_tokens(self._connection, self._keys, principal, now=self._now, why="ended: another person")
        if opened is None:
            await insert_entries(self._connection, self._keys, [audit])

    async def _connect(self, change: Change, *, may_change: bool) -> None:
        account_id = await self._pin(change.account, may_change=may_change)
        await self._replace_credential(change, account_id)
        await self._merge_permission(change.permission)
        await insert_entries(self._connection, self._keys, [change.audit])

    async def withdraw(self, principal: Principal, grant: Grant | None, audit: AuditEntry) -> None:
        """Delete a user's credential, permissions and tasks, and end their open requests."""
        for table in (credentials, permissions):
            await self._connection.execute(delete(table).where(owned_by(table.c, principal)))
        await end_tasks(self._connection, principal)
        await end_all(self._connection, principal)
        await end_started(self._connection, principal)
        await end_auth_transactions(self._connection, owned_by(auth_transactions.c, principal), now=self._now)
        if grant is not None:
            if grant.credential.secret:
                await revoke(self._connection, self._keys, grant.account, grant.credential, self._now)
            await insert_entries(self._connection, self._keys, [audit])

    async def _may_change(self, change: Change) -> bool:
        """Tell whether this user may connect another account: only after a sign-in here, and disconnected."""
        if change.flow is not None:
            # Anyone who has the link of a login flow can finish it, so its first account stays.
            return False
        mine = select(credentials.c.id).where(owned_by(credentials.c, change.account.principal))
        return await self._connection.scalar(mine) is None

    async def _pin(self, account: Account, *, may_change: bool) -> str:
        """Insert the account, or update the stored one; return its id."""
        same_person = owned_by(accounts.c, account.principal)
        same_account = and_(accounts.c.nextcloud_url == account.nextcloud_url, accounts.c.uid == account.uid)
        query = select(
            accounts.c.id,
            accounts.c.issuer,
            accounts.c.subject,
            accounts.c.nextcloud_url,
            accounts.c.uid,
            accounts.c.storage_id,
            accounts.c.mapped,
        ).where(or_(same_person, same_account))
        known: list[Row[*tuple[Any, ...]]] = []
        for row in (await self._connection.execute(query)).all():
            if Principal(row.issuer, row.subject) == account.principal:
                known.append(row)
            elif await self._may_be_taken(row, account):
                await self._take_over(row, account.principal)
            else:
                raise AccountTaken(Failure("account_taken", {"answered": account.uid}))
        if not known:
            await self._insert_account(account)
            return account.id
        row = known[0]
        if (row.nextcloud_url, row.uid) == (account.nextcloud_url, account.uid):
            await self._update_account(row, account)
        elif may_change:
            await self._change_account(row, account)
        else:
            raise WrongAccount(Failure("other_connected", {"answered": account.uid, "connected": row.uid}))
        return row.id

    async def _insert_account(self, account: Account) -> None:
        seal = self._keys.at("accounts", account.principal, account.id)
        await self._connection.execute(
            insert(accounts).values(
                id=account.id,
                issuer=account.principal.issuer,
                subject=account.principal.subject,
                nextcloud_url=account.nextcloud_url,
                uid=account.uid,
                display_name=seal.seal("display_name", account.display_name),
                storage_id=account.storage_id,
                created_at=account.created_at,
                mapped=account.mapped,
            )
        )

    async def _change_account(self, known: Row[*tuple[Any, ...]], account: Account) -> None:
        """Replace the stored account by another one; the former one may be connected by any principal."""
        seal = self._keys.at("accounts", account.principal, known.id)
        await end_tasks(self._connection, account.principal)
        await self._connection.execute(
            update(accounts)
            .where(accounts.c.id == known.id)
            .values(
                nextcloud_url=account.nextcloud_url,
                uid=account.uid,
                display_name=seal.seal("display_name", account.display_name),
                storage_id=account.storage_id,
                created_at=account.created_at,
                mapped=account.mapped,
            )
        )
        changed = AuditEntry(
            at=self._now,
            principal=account.principal,
            client_id="",
            action="account",
            result="changed",
            detail=f"{known.uid} to {account.uid}",
        )
        await insert_entries(self._connection, self._keys, [changed])

    async def _update_account(self, known: Row[*tuple[Any, ...]], account: Account) -> None:
        seal = self._keys.at("accounts", account.principal, known.id)
        await self._connection.execute(
            update(accounts)
            .where(accounts.c.id == known.id)
            .values(
                display_name=seal.seal("display_name", account.display_name),
                storage_id=account.storage_id or known.storage_id,
                mapped=account.mapped or known.mapped,
            )
        )
        if None not in (known.storage_id, account.storage_id) and known.storage_id != account.storage_id:
            # The user was deleted and re-created, maybe for another human: the former user's permissions and
            # browser sessions must not open the new user's files.
            await self._connection.execute(
                delete(permissions).where(owned_by(permissions.c, account.principal))
            )
            await end_tasks(self._connection, account.principal)
            await end_all(self._connection, account.principal)
            await sign_out_everywhere(self._connection, account.principal)
            await end_tokens(
                self._connection,
                self._keys,
                account.principal,
                now=self._now,
                why="ended: the Nextcloud account was made anew",
            )

    async def _replace_credential(self, change: Change, account_id: str) -> None:
        principal, new = change.account.principal, change.credential
        query = select(*CREDENTIAL).where(owned_by(credentials.c, principal))
        row = (await self._connection.execute(query)).one_or_none()
        version = new.version
        if row is not None:
            with contextlib.suppress(Unsealable):
                old = open_credential(self._keys, principal, row)
                if change.flow is None and new.id == old.id:
                    return
                # An invalid credential is replaced whatever the clocks say: a restored one, or one from another
                # machine, would make the user consent again and again.
                if change.flow is None and old.created_at >= new.created_at and not old.needs_reauth:
                    if has_tokens(new):
                        # Of two consent requests that completed together, the newer grant stays.
                        await revoke(self._connection, self._keys, change.account, new, self._now)
                    return
                if old.secret != new.secret:
                    await revoke(self._connection, self._keys, change.account, old, self._now)
            version = max(version, row.version + 1)
            await self._connection.execute(delete(credentials).where(credentials.c.id == row.credential_id))
        stored = dataclasses.replace(new, account_id=account_id, version=version)
        await self._connection.execute(
            insert(credentials).values(credential_values(self._keys, principal, stored))
        )

    async def _merge_permission(self, new: Permission) -> None:
        mine = and_(owned_by(permissions.c, new.principal), permissions.c.client_id == new.client_id)
        known = await self._connection.scalar(select(permissions.c.scopes).where(mine))
        seal = self._keys.at("permissions", new.principal, new.client_id)
        values: dict[str, object] = {
            "client_name": seal.seal("client_name", new.client_name),
            "granted_at": new.granted_at,
        }
        if known is not None:
            await self._connection.execute(
                update(permissions).where(mine).values(**values, scopes=known | new.scopes)
            )
            return
        await self._connection.execute(
            insert(permissions).values(
                **values,
                issuer=new.principal.issuer,
                subject=new.principal.subject,
                client_id=new.client_id,
                scopes=new.scopes,
                last_used_at=new.last_used_at,
            )
        )
