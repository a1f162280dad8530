"""Notifications between processes that share a PostgreSQL: some consent request has ended.

A notification has no content. Every database user can listen, and learns nothing about the user of a consent
request or about its result.
"""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

CHANNEL = "nextcloud_mcp_consent_ended"
_NOTIFY = select(func.pg_notify(CHANNEL, ""))


async def notify(connection: AsyncConnection) -> None:
    """Notify all listening processes when the caller's transaction commits; do nothing in SQLite."""
    if connection.dialect.name == "postgresql":
        await connection.execute(_NOTIFY)
