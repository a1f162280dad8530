"""Leases: work that is due goes to one process at a time, and to another when that one dies."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Row, Table, and_, case, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

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
    """Lease the rows that are due and that no one holds, the oldest first; `within` takes one user's."""
    due = and_(
        table.c.due_at <= now,
        or_(table.c.lease_until.is_(None), table.c.lease_until <= now),
        _of(table, within),
    )
    chosen = select(table.c.id).where(due).order_by(table.c.due_at).limit(limit)
    # The condition stands outside the subquery too: where two updates wait for each other, the
    # second looks at the row again before it takes it.
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
    """Tell when the next row is due, or its present lease ends; None when there is no row."""
    free_at = case((table.c.lease_until > table.c.due_at, table.c.lease_until), else_=table.c.due_at)
    return await connection.scalar(select(func.min(free_at)).where(_of(table, within)))


def _of(table: Table[C], within: Principal | None) -> ColumnElement[bool]:
    return true() if within is None else owned_by(table.c, within)
