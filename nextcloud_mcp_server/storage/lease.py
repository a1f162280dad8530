"""Leases: one process at a time gets due work, and another one if that process dies."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Row, Table, and_, case, func, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage.corrected_clock import is_due, is_free
from nextcloud_mcp_server.storage.models import LeasedColumns, owned_by
from nextcloud_mcp_server.storage.records import Principal

C = TypeVar("C", bound=LeasedColumns)


async def take_due(
    connection: AsyncConnection,
    table: Table[C],
    *,
    owner: str,
    now: datetime,
    lease: timedelta,
    limit: int,
    within: Principal | None,
) -> Sequence[Row[Any]]:
    """Lease the due rows that no process holds, the oldest first; `within` limits it to one user."""
    due = and_(is_due(table.c.due_at, now), is_free(table.c.lease_until, now), _of(table, within))
    chosen = select(table.c.id).where(due).order_by(table.c.due_at).limit(limit)
    # The condition is repeated outside the subquery: if two updates wait for each other, the second checks the
    # row again.
    taken = await connection.execute(
        update(table)
        .where(table.c.id.in_(chosen.scalar_subquery()), due)
        .values(lease_owner=owner, lease_until=now + lease)
        .returning(table)
    )
    return sorted(taken.all(), key=lambda row: row.due_at)


async def next_due_at(
    connection: AsyncConnection, table: Table[C], within: Principal | None
) -> datetime | None:
    """Return when the next row is due, or its present lease ends; None if there is no row."""
    free_at = case((table.c.lease_until > table.c.due_at, table.c.lease_until), else_=table.c.due_at)
    return await connection.scalar(select(func.min(free_at)).where(_of(table, within)))


def _of(table: Table[C], within: Principal | None) -> ColumnElement[bool]:
    return true() if within is None else owned_by(table.c, within)
