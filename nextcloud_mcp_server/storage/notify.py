"""What processes that share a PostgreSQL tell each other: that some consent request has ended.

An announcement has no content. Anyone who may connect to the database can listen, and learns nothing
about whose consent request it was or how it ended.
"""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

CHANNEL = "nextcloud_mcp_consent_ended"
_NOTIFY = select(func.pg_notify(CHANNEL, ""))


async def notify(connection: AsyncConnection) -> None:
    """Tell every user who listens, when the caller's transaction commits; SQLite has nothing for it."""
    if connection.dialect.name == "postgresql":
        await connection.execute(_NOTIFY)
