"""Login flows: those that are being polled at Nextcloud."""

import json
import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Row, and_, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import ElicitationUnknown, StorageError
from nextcloud_mcp_server.storage import lease as leases
from nextcloud_mcp_server.storage.corrected_clock import is_free
from nextcloud_mcp_server.storage.crypto import KeyRing, Seal, Sealed, hash_of, readable
from nextcloud_mcp_server.storage.models import elicitations, login_flows, owned_by
from nextcloud_mcp_server.storage.outbox import DELETE_APP_PASSWORD, insert_item
from nextcloud_mcp_server.storage.records import ElicitationState, LoginFlow, LoginResult, Principal
from nextcloud_mcp_server.storage.transaction import Transactions

_UNWANTED = (ElicitationState.DECLINED, ElicitationState.FAILED, ElicitationState.EXPIRED)

_AT_ONCE = timedelta()


class LoginFlowRepository:
    """Stores each flow until Nextcloud has ended it and its result is used or deleted there."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(
        self,
        *,
        elicitation_id: str,
        principal: Principal,
        login_url: SecretStr,
        poll_token: SecretStr,
        scopes: frozenset[str],
        expires_at: datetime,
        uid: str | None = None,
    ) -> LoginFlow:
        """Store a started flow; if this elicitation has one already, return that.

        `uid` is the account that the flow must open; it does not change. The flow is marked `discard` from the
        start if the elicitation ended in the meantime.

        Raises:
            ElicitationUnknown: The principal has no such elicitation.
        """
        keys, now = self._transactions.keys, self._transactions.now()
        flow_id, elicitation_hash = uuid.uuid4().hex, hash_of(elicitation_id)
        seal = keys.at("login_flows", principal, flow_id)
        async with self._transactions.writing() as connection:
            state = await connection.scalar(
                select(elicitations.c.state).where(
                    elicitations.c.id_hash == elicitation_hash, owned_by(elicitations.c, principal)
                )
            )
            if state is None:
                raise ElicitationUnknown("This request is not known any more. Call the tool again.")
            values = {
                "id": flow_id,
                "issuer": principal.issuer,
                "subject": principal.subject,
                "elicitation_hash": elicitation_hash,
                "elicitation_id": seal.seal("elicitation_id", elicitation_id),
                "login_url": seal.seal("login_url", login_url.get_secret_value()),
                "poll_token": seal.seal("poll_token", poll_token.get_secret_value()),
                "scopes": scopes,
                "started_at": now,
                "expires_at": expires_at,
                "discard": state in _UNWANTED,
                "attempts": 0,
                "due_at": now,
                "uid": seal.seal_optional("uid", uid),
            }
            creation = insert(login_flows).values(values).returning(login_flows)
            row = await _find(connection, elicitation_hash) or (await connection.execute(creation)).one()
        return _flow(keys, row)

    async def find(self, elicitation_id: str) -> LoginFlow | None:
        """Return the flow of an elicitation.

        Raises:
            Unsealable: Its key is missing.
        """
        async with self._transactions.reading() as connection:
            row = await _find(connection, hash_of(elicitation_id))
        return None if row is None else _flow(self._transactions.keys, row)

    async def set_scopes(self, flow_id: str, scopes: frozenset[str]) -> None:
        """Store other scopes, chosen before Nextcloud confirmed the first ones."""
        async with self._transactions.writing() as connection:
            await connection.execute(
                update(login_flows).where(login_flows.c.id == flow_id).values(scopes=scopes)
            )

    async def lease_due(
        self, *, owner: str, lease: timedelta, within: Principal | None = None, limit: int = 20
    ) -> list[LoginFlow]:
        """Lease the due flows; while the lease lasts, no other process gets them.

        `within` limits it to one user. Flows with a result are included: a process ended between saving and
        using it. A flow that cannot be decrypted is left out.
        """
        async with self._transactions.writing() as connection:
            rows = await leases.take_due(
                connection,
                login_flows,
                owner=owner,
                now=self._transactions.now(),
                lease=lease,
                limit=limit,
                within=within,
            )
        return readable(rows, partial(_flow, self._transactions.keys))

    async def lease_one(
        self, elicitation_id: str, *, owner: str, lease: timedelta, from_others: bool
    ) -> LoginFlow | None:
        """Lease the flow of an elicitation even if it is not due; None if there is none, or it is leased.

        `from_others` takes it from another owner too, whose process may be dead.
        """
        columns, now = login_flows.c, self._transactions.now()
        free = [is_free(columns.lease_until, now)]
        if from_others:
            free.append(columns.lease_owner != owner)
        taking = (
            update(login_flows)
            .where(columns.elicitation_hash == hash_of(elicitation_id), or_(*free))
            .values(lease_owner=owner, lease_until=now + lease)
            .returning(login_flows)
        )
        async with self._transactions.writing() as connection:
            row = (await connection.execute(taking)).one_or_none()
        return None if row is None else _flow(self._transactions.keys, row)

    async def postpone(self, flow_id: str, *, owner: str, next_poll_at: datetime) -> None:
        """Count an attempt and release the flow until then; no effect if the lease was lost."""
        async with self._transactions.writing() as connection:
            await connection.execute(
                update(login_flows)
                .where(login_flows.c.id == flow_id, login_flows.c.lease_owner == owner)
                .values(
                    attempts=login_flows.c.attempts + 1,
                    due_at=next_poll_at,
                    lease_owner=None,
                    lease_until=None,
                )
            )

    async def save_result(self, flow_id: str, result: LoginResult) -> None:
        """Store Nextcloud's answer, which it gives only once, before it is used.

        Raises:
            StorageError: The flow does not exist any more.
        """
        text = json.dumps([result.login_name, result.app_password.get_secret_value()])
        async with self._transactions.writing() as connection:
            row = (
                await connection.execute(
                    select(login_flows.c.issuer, login_flows.c.subject).where(login_flows.c.id == flow_id)
                )
            ).one_or_none()
            if row is None:
                raise StorageError("This login flow was forgotten already; delete its result at Nextcloud.")
            seal = self._transactions.keys.at("login_flows", Principal(row.issuer, row.subject), flow_id)
            await connection.execute(
                update(login_flows)
                .where(login_flows.c.id == flow_id)
                .values(result=seal.seal("result", text))
            )

    async def throw_away(
        self, flow: LoginFlow, result: LoginResult, *, nextcloud_url: str, after: timedelta = _AT_ONCE
    ) -> bool:
        """Delete a flow, and its app password at Nextcloud `after` a time, in one transaction.

        False, and nothing changed, if the flow does not exist any more: another process used its result in the
        meantime, and deleting it would end a working connection.
        """
        async with self._transactions.writing() as connection:
            gone = await connection.execute(delete(login_flows).where(login_flows.c.id == flow.id))
            if gone.rowcount == 0:
                return False
            await insert_item(
                connection,
                self._transactions.keys,
                principal=flow.principal,
                kind=DELETE_APP_PASSWORD,
                nextcloud_url=nextcloud_url,
                login_name=result.login_name,
                secret=result.app_password,
                due_at=self._transactions.now() + after,
            )
        return True

    async def delete(self, flow_id: str, *, owner: str) -> None:
        """Delete a flow that ended without an answer.

        No effect if the lease was lost or an answer was stored meanwhile: a process that was suspended beyond
        its lease must not discard another one's answer.
        """
        own = and_(
            login_flows.c.id == flow_id, login_flows.c.lease_owner == owner, login_flows.c.result.is_(None)
        )
        async with self._transactions.writing() as connection:
            await connection.execute(delete(login_flows).where(own))

    async def next_due_at(self, within: Principal | None = None) -> datetime | None:
        """Return when the next flow is due; None if there is no flow."""
        async with self._transactions.reading() as connection:
            return await leases.next_due_at(connection, login_flows, within)


async def discard_flows(connection: AsyncConnection, elicitation_hashes: Collection[str]) -> None:
    """Mark the flows of these elicitations: an app password that they bring must be deleted at Nextcloud."""
    await connection.execute(
        update(login_flows).where(login_flows.c.elicitation_hash.in_(elicitation_hashes)).values(discard=True)
    )


async def _find(connection: AsyncConnection, elicitation_hash: str) -> Row[Any] | None:
    query = select(login_flows).where(login_flows.c.elicitation_hash == elicitation_hash)
    return (await connection.execute(query)).one_or_none()


def _flow(keys: KeyRing, row: Row[Any]) -> LoginFlow:
    principal = Principal(issuer=row.issuer, subject=row.subject)
    seal = keys.at("login_flows", principal, row.id)
    return LoginFlow(
        id=row.id,
        elicitation_id=seal.open("elicitation_id", row.elicitation_id),
        principal=principal,
        login_url=SecretStr(seal.open("login_url", row.login_url)),
        poll_token=SecretStr(seal.open("poll_token", row.poll_token)),
        scopes=row.scopes,
        started_at=row.started_at,
        expires_at=row.expires_at,
        discard=row.discard,
        attempts=row.attempts,
        result=None if row.result is None else _result(seal, row.result),
        uid=seal.open_optional("uid", row.uid),
    )


def _result(seal: Seal, sealed: Sealed) -> LoginResult:
    login_name, app_password = json.loads(seal.open("result", sealed))
    return LoginResult(login_name=login_name, app_password=SecretStr(app_password))
