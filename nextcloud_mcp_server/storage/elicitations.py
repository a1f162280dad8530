"""Elicitations: the stored consent requests. Each passes through its states once."""

import contextlib
import dataclasses
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, delete, exists, insert, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.audit import insert_entries
from nextcloud_mcp_server.storage.corrected_clock import is_over
from nextcloud_mcp_server.storage.crypto import KeyRing, Sealed, hash_of
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.login_flows import discard_flows
from nextcloud_mcp_server.storage.models import active, elicitations, login_flows, owned_by, pending_grants
from nextcloud_mcp_server.storage.notify import notify
from nextcloud_mcp_server.storage.pending_grants import discard_pending_grants
from nextcloud_mcp_server.storage.records import AuditEntry, Elicitation, ElicitationState, Principal
from nextcloud_mcp_server.storage.transaction import Transactions
from nextcloud_mcp_server.telemetry import metrics


class ElicitationRepository:
    """Stores one open request per user, client and kind, and all that have ended."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def open(
        self,
        *,
        principal: Principal,
        client_id: str,
        client_name: str,
        kind: str,
        scopes: frozenset[str],
        ttl: timedelta,
        new_url: Callable[[str], str],
    ) -> tuple[Elicitation, bool]:
        """Return the open request, widened to these scopes, or a new one; the second part says which.

        A request that the user has opened already is widened too: replacing it would discard what they are just
        granting. Scopes that they do not tick are asked for afterwards.
        """
        keys, now = self._transactions.keys, self._transactions.now()
        wanted = Elicitation(
            id=(elicitation_id := str(uuid.uuid4())),
            principal=principal,
            client_id=client_id,
            client_name=client_name,
            kind=kind,
            scopes=scopes,
            url=new_url(elicitation_id),
            state=ElicitationState.PENDING,
            created_at=now,
            expires_at=now + ttl,
        )
        async with self._transactions.writing() as connection:
            same = and_(_same(principal, client_id, kind), active)
            await _expire(connection, and_(same, is_over(elicitations.c, now)))
            row = (await connection.execute(select(elicitations).where(same))).one_or_none()
            if row is not None:
                if (reused := await _reuse(connection, keys, row, scopes)) is not None:
                    return reused, False
                await _expire(connection, same)
            await connection.execute(insert(elicitations).values(_values(keys, wanted)))
        metrics.CONSENTS_ASKED.add()
        return wanted, True

    async def find(self, elicitation_id: str) -> Elicitation | None:
        """Return a request by its id; the caller compares the principal.

        Raises:
            Unsealable: Its key is missing.
        """
        query = select(elicitations).where(elicitations.c.id_hash == hash_of(elicitation_id))
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _elicitation(self._transactions.keys, row, self._transactions.now())

    async def still_open(
        self, elicitation_ids: Sequence[str], *, within: Principal | None = None
    ) -> set[str]:
        """Return, in one query, which of these requests have not ended; a missing key ends one.

        `within` limits it to one user. This runs every second for all waiting users, so it reads no more than
        it needs.
        """
        columns = elicitations.c
        hashes = _padded([hash_of(elicitation_id) for elicitation_id in elicitation_ids])
        query = select(columns.id_hash, columns.issuer, columns.subject, columns.id).where(
            columns.id_hash.in_(hashes), active, columns.expires_at > self._transactions.now()
        )
        if within is not None:
            query = query.where(owned_by(columns, within))
        async with self._transactions.reading() as connection:
            rows = (await connection.execute(query)).all()
        found: set[str] = set()
        for row in rows:
            with contextlib.suppress(Unsealable):
                found.add(
                    _opened_id(
                        self._transactions.keys, Principal(row.issuer, row.subject), row.id_hash, row.id
                    )
                )
        return found

    async def find_active(self, *, principal: Principal, client_id: str, kind: str) -> Elicitation | None:
        """Return the open request; one whose key is missing counts as none."""
        now = self._transactions.now()
        query = select(elicitations).where(
            _same(principal, client_id, kind), active, elicitations.c.expires_at > now
        )
        async with self._transactions.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is not None:
            with contextlib.suppress(Unsealable):
                return _elicitation(self._transactions.keys, row, now)
        return None

    async def set_url(self, elicitation_id: str, url: str) -> None:
        """Store the URL for the client, if it becomes known only later."""
        await self._seal(elicitation_id, "url", url)

    async def set_failure(self, elicitation_id: str, failure: Failure) -> None:
        """Store what went wrong in an open request, which stays open for another try."""
        await self._seal(elicitation_id, "error", failure.packed(), active)

    async def mark_opened(self, elicitation_id: str) -> bool:
        """Change the state from pending to opened; False if it is not pending any more."""
        async with self._transactions.writing() as connection:
            moved = await connection.execute(
                update(elicitations)
                .where(
                    elicitations.c.id_hash == hash_of(elicitation_id),
                    elicitations.c.state == ElicitationState.PENDING,
                    elicitations.c.expires_at > self._transactions.now(),
                )
                .values(state=ElicitationState.OPENED)
            )
        return moved.rowcount == 1

    async def count_refusal(self, elicitation_id: str) -> int:
        """Count an attempt of another user; return the number of attempts, 0 for an unknown request."""
        counting = (
            update(elicitations)
            .where(elicitations.c.id_hash == hash_of(elicitation_id))
            .values(refusals=elicitations.c.refusals + 1)
            .returning(elicitations.c.refusals)
        )
        async with self._transactions.writing() as connection:
            return (await connection.execute(counting)).scalar_one_or_none() or 0

    async def finish(
        self,
        elicitation_id: str,
        state: ElicitationState,
        *,
        failure: Failure | None = None,
        account_name: str | None = None,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Change to a final state; False, and nothing stored, if the request had ended already.

        Unless the state is complete, a credential that Nextcloud gave or will give for it is marked to be
        revoked there.
        """
        keys, id_hash = self._transactions.keys, hash_of(elicitation_id)
        async with self._transactions.writing() as connection:
            principal = await _owner(connection, id_hash)
            if principal is None or not await settle(
                connection,
                keys,
                principal=principal,
                id_hash=id_hash,
                state=state,
                now=self._transactions.now(),
                failure=failure,
                account_name=account_name,
            ):
                return False
            if state is not ElicitationState.COMPLETE:
                await _discard(connection, [id_hash])
            if audit is not None:
                await insert_entries(connection, keys, [audit])
        return True

    async def expire_due(self) -> list[str]:
        """Expire every open request whose time has passed; return the ids of those that can be decrypted."""
        due = and_(active, is_over(elicitations.c, self._transactions.now()))
        async with self._transactions.writing() as connection:
            rows = await _expire(connection, due)
        ids: list[str] = []
        for row in rows:
            with contextlib.suppress(Unsealable):
                ids.append(
                    _opened_id(
                        self._transactions.keys, Principal(row.issuer, row.subject), row.id_hash, row.id
                    )
                )
        return ids

    async def purge(self, *, before: datetime) -> int:
        """Delete the requests that expired before a time, and return their number.

        Those stay whose login flow or pending grant has still to be ended at Nextcloud.
        """
        kept = or_(
            exists().where(login_flows.c.elicitation_hash == elicitations.c.id_hash),
            exists().where(pending_grants.c.elicitation_hash == elicitations.c.id_hash),
        )
        async with self._transactions.writing() as connection:
            gone = await connection.execute(
                delete(elicitations).where(elicitations.c.expires_at < before, not_(kept))
            )
        return gone.rowcount

    async def _seal(
        self, elicitation_id: str, column: str, text: str, *conditions: ColumnElement[bool]
    ) -> None:
        id_hash = hash_of(elicitation_id)
        async with self._transactions.writing() as connection:
            principal = await _owner(connection, id_hash)
            if principal is not None:
                sealed = self._transactions.keys.at("elicitations", principal, id_hash).seal(column, text)
                await connection.execute(
                    update(elicitations)
                    .where(elicitations.c.id_hash == id_hash, *conditions)
                    .values({column: sealed})
                )


async def settle(
    connection: AsyncConnection,
    keys: KeyRing,
    *,
    principal: Principal,
    id_hash: str,
    state: ElicitationState,
    now: datetime,
    failure: Failure | None = None,
    account_name: str | None = None,
) -> bool:
    """Change an open request to a final state within the caller's transaction; only one caller succeeds."""
    seal = keys.at("elicitations", principal, id_hash)
    in_time = elicitations.c.expires_at > now
    moved = await connection.execute(
        update(elicitations)
        .where(
            elicitations.c.id_hash == id_hash,
            owned_by(elicitations.c, principal),
            active,
            *(() if state is ElicitationState.EXPIRED else (in_time,)),
        )
        .values(
            state=state,
            error=seal.seal_optional("error", failure and failure.packed()),
            account_name=seal.seal_optional("account_name", account_name),
            completed_at=now if state is ElicitationState.COMPLETE else None,
        )
        .returning(elicitations.c.created_at)
    )
    created_at = moved.scalar_one_or_none()
    if created_at is None:
        return False
    metrics.CONSENTS.add(state)
    if state is ElicitationState.COMPLETE:
        metrics.CONSENT_SECONDS.add(value=(now - created_at).total_seconds())
    await notify(connection)
    return True


async def end_all(connection: AsyncConnection, principal: Principal) -> None:
    """End all of a user's open requests within the caller's transaction."""
    await _expire(connection, and_(owned_by(elicitations.c, principal), active))


async def end_of_client(connection: AsyncConnection, client_id: str) -> None:
    """End all open requests of a client, of every user, within the caller's transaction."""
    await _expire(connection, and_(elicitations.c.client_id == client_id, active))


async def end_own_of_client(connection: AsyncConnection, principal: Principal, client_id: str) -> None:
    """End the open requests of one client and one user, within the caller's transaction."""
    await _expire(
        connection, and_(owned_by(elicitations.c, principal), elicitations.c.client_id == client_id, active)
    )


async def end_of_every_user(connection: AsyncConnection) -> None:
    """End all open requests within the caller's transaction."""
    await _expire(connection, active)


def _same(principal: Principal, client_id: str, kind: str) -> ColumnElement[bool]:
    return and_(
        owned_by(elicitations.c, principal),
        elicitations.c.client_id == client_id,
        elicitations.c.kind == kind,
    )


async def _expire(connection: AsyncConnection, condition: ColumnElement[bool]) -> Sequence[Row[Any]]:
    moved = await connection.execute(
        update(elicitations).where(condition).values(state=ElicitationState.EXPIRED).returning(elicitations)
    )
    rows = moved.all()
    if rows:
        await _discard(connection, [row.id_hash for row in rows])
        metrics.CONSENTS.add(ElicitationState.EXPIRED.value, value=len(rows))
        await notify(connection)
    return rows


async def _discard(connection: AsyncConnection, id_hashes: Sequence[str]) -> None:
    await discard_flows(connection, id_hashes)
    await discard_pending_grants(connection, id_hashes)


async def _reuse(
    connection: AsyncConnection, keys: KeyRing, row: Row[Any], scopes: frozenset[str]
) -> Elicitation | None:
    try:
        found = _elicitation(keys, row, row.created_at)
    except Unsealable:
        # No one can be sent to it any more, so it must not block a new one.
        return None
    if scopes <= found.scopes:
        return found
    widened = found.scopes | scopes
    await connection.execute(
        update(elicitations).where(elicitations.c.id_hash == row.id_hash).values(scopes=widened)
    )
    return dataclasses.replace(found, scopes=widened)


async def _owner(connection: AsyncConnection, id_hash: str) -> Principal | None:
    query = select(elicitations.c.issuer, elicitations.c.subject).where(elicitations.c.id_hash == id_hash)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else Principal(issuer=row.issuer, subject=row.subject)


def _padded(hashes: list[str]) -> list[str]:
    """Repeat the last hash until the length is a power of two.

    Drivers cache the last hundred prepared statements of each connection; a statement for every number of
    waiters would fill that cache.
    """
    size = 1 << (len(hashes) - 1).bit_length() if hashes else 0
    return hashes + hashes[-1:] * (size - len(hashes))


def _opened_id(keys: KeyRing, principal: Principal, id_hash: str, sealed: Sealed) -> str:
    return keys.at("elicitations", principal, id_hash).open("id", sealed)


def _values(keys: KeyRing, elicitation: Elicitation) -> dict[str, object]:
    id_hash = hash_of(elicitation.id)
    seal = keys.at("elicitations", elicitation.principal, id_hash)
    return {
        "id_hash": id_hash,
        "issuer": elicitation.principal.issuer,
        "subject": elicitation.principal.subject,
        "client_id": elicitation.client_id,
        "kind": elicitation.kind,
        "scopes": elicitation.scopes,
        "state": elicitation.state,
        "refusals": 0,
        "created_at": elicitation.created_at,
        "expires_at": elicitation.expires_at,
        "id": seal.seal("id", elicitation.id),
        "url": seal.seal("url", elicitation.url),
        "client_name": seal.seal("client_name", elicitation.client_name),
    }


def _elicitation(keys: KeyRing, row: Row[Any], now: datetime) -> Elicitation:
    principal = Principal(issuer=row.issuer, subject=row.subject)
    seal = keys.at("elicitations", principal, row.id_hash)
    state = ElicitationState(row.state)
    error = seal.open_optional("error", row.error)
    return Elicitation(
        id=seal.open("id", row.id),
        principal=principal,
        client_id=row.client_id,
        client_name=seal.open("client_name", row.client_name),
        kind=row.kind,
        scopes=row.scopes,
        url=seal.open("url", row.url),
        state=ElicitationState.EXPIRED if not state.final and row.expires_at <= now else state,
        created_at=row.created_at,
        expires_at=row.expires_at,
        failure=None if error is None else Failure.unpacked(error),
        account_name=seal.open_optional("account_name", row.account_name),
        completed_at=row.completed_at,
    )
