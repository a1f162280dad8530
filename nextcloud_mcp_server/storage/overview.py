"""The overview of a database for its operator: counts and times, without a name of any user or client."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Column, ColumnElement, and_, distinct, exists, func, not_, or_, select, text, true
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, Sealed
from nextcloud_mcp_server.storage.ended_sessions import ended_sessions
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.models import (
    access_tokens,
    active,
    audit,
    clients,
    codes,
    credentials,
    elicitations,
    grant_requests,
    login_flows,
    outbox,
    pending_grants,
    permissions,
    sign_ins,
    token_families,
)
from nextcloud_mcp_server.storage.records import ElicitationState, Principal
from nextcloud_mcp_server.storage.tasks import tasks
from nextcloud_mcp_server.storage.transaction import Transactions

_DAY = timedelta(days=1)
#: Failed consent requests whose reasons are read, the newest first.
_MOST_REASONS = 1_000
_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
}
#: Each process names its connections after itself (`postgres.process_name`).
_OTHER_PROCESSES = (
    "SELECT count(DISTINCT application_name) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name LIKE 'nextcloud-mcp-server %'"
    " AND application_name <> current_setting('application_name')"
)


@dataclass(frozen=True, slots=True)
class Grants:
    """Users by the state of their grant, and what they allowed their clients.

    `postponed`: the last token refresh failed and is tried again; `refused`: the user must consent again.
    """

    working: int
    postponed: int
    refused: int
    permissions: int
    paused: int
    clients: int


@dataclass(frozen=True, slots=True)
class Requests:
    """Consent requests: those that are open, and those of the last 24 hours that ended, by their state.

    `reasons` counts why they failed, by the code of the failure.
    """

    open: int
    ended: Mapping[ElicitationState, int]
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Overview:
    """What a database holds.

    `clients` registered themselves or are known by their document. `revocations` are still to be sent to Nextcloud,
    and `failed_revocations` of them failed before. `stale_since` is when the oldest row that is still there should
    have been deleted. `other_processes` is None where the database cannot tell.
    """

    grants: Grants
    clients: int
    requests: Requests
    revocations: int
    failed_revocations: int
    stale_since: datetime | None
    size: int
    other_processes: int | None


class OverviewRepository:
    """Reads the rows of all users, for the operator."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def read(self, *, requests_kept: timedelta, audit_kept: timedelta | None) -> Overview:
        """Count what the database holds now; the arguments are how long ended requests and audit entries stay."""
        now = self._transactions.now()
        kept = list(_kept(requests_kept, audit_kept))
        async with self._transactions.reading() as connection:
            waiting = await _row(connection, func.count(outbox.c.id), _how_many(outbox.c.attempts > 0))
            known = await _row(connection, func.count(clients.c.client_id))
            oldest = [
                await connection.scalar(select(func.min(column)).where(rows)) for column, rows, _ in kept
            ]
            stale = [at + time for at, (_, _, time) in zip(oldest, kept, strict=True) if at is not None]
            return Overview(
                grants=await _grants(connection, now),
                clients=known[0],
                requests=await _requests(connection, self._transactions.keys, now),
                revocations=waiting[0],
                failed_revocations=waiting[1],
                stale_since=min((at for at in stale if at <= now), default=None),
                size=await connection.scalar(text(_SIZE[connection.dialect.name])) or 0,
                other_processes=await _other_processes(connection),
            )


async def _grants(connection: AsyncConnection, now: datetime) -> Grants:
    columns = credentials.c
    waits = and_(not_(columns.needs_reauth), columns.retry_at > now)
    users = await _row(connection, func.count(columns.id), _how_many(waits), _how_many(columns.needs_reauth))
    allowed = await _row(
        connection,
        func.count(permissions.c.client_id),
        _how_many(permissions.c.paused),
        func.count(distinct(permissions.c.client_id)),
    )
    total, postponed, refused = users
    return Grants(total - postponed - refused, postponed, refused, *allowed)


async def _requests(connection: AsyncConnection, keys: KeyRing, now: datetime) -> Requests:
    columns = elicitations.c
    recent = columns.created_at > now - _DAY
    open_ = await _row(connection, _how_many(and_(active, columns.expires_at > now)))
    states = select(columns.state, func.count()).where(recent, not_(active)).group_by(columns.state)
    ended = {ElicitationState(state): number for state, number in (await connection.execute(states)).all()}
    failed = (
        select(columns.issuer, columns.subject, columns.id_hash, columns.error)
        .where(recent, columns.state == ElicitationState.FAILED, columns.error.is_not(None))
        .order_by(columns.created_at.desc())
        .limit(_MOST_REASONS)
    )
    reasons = Counter(_reason(keys, *row) for row in (await connection.execute(failed)).all())
    return Requests(open_[0], ended, reasons)


def _kept(
    requests_kept: timedelta, audit_kept: timedelta | None
) -> Iterator[tuple[Column[datetime], ColumnElement[bool], timedelta]]:
    """Yield what a server deletes by its age: the column of the time, which rows, and how long after that time."""
    for column in (
        sign_ins.c.expires_at,
        grant_requests.c.expires_at,
        codes.c.expires_at,
        access_tokens.c.expires_at,
        token_families.c.expires_at,
        tasks.c.expires_at,
        ended_sessions.c.expires_at,
    ):
        yield column, true(), timedelta()
    waits_for_nextcloud = or_(
        exists().where(login_flows.c.elicitation_hash == elicitations.c.id_hash),
        exists().where(pending_grants.c.elicitation_hash == elicitations.c.id_hash),
    )
    yield elicitations.c.expires_at, not_(waits_for_nextcloud), requests_kept
    if audit_kept is not None:
        yield audit.c.at, true(), audit_kept


async def _other_processes(connection: AsyncConnection) -> int | None:
    if connection.dialect.name != "postgresql":
        return None
    return await connection.scalar(text(_OTHER_PROCESSES))


def _how_many(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count().filter(condition)


async def _row(connection: AsyncConnection, *counts: ColumnElement[int]) -> list[int]:
    row = (await connection.execute(select(*counts))).one()
    return [int(value) for value in row]


def _reason(keys: KeyRing, issuer: str, subject: str, id_hash: str, error: Sealed) -> str:
    """Return the code of a failure; its values can name a user."""
    try:
        packed = keys.at("elicitations", Principal(issuer, subject), id_hash).open("error", error)
    except Unsealable:
        return ""
    return Failure.unpacked(packed).code
