"""Authorization requests that were answered; each gets one code. Within the caller's transaction."""

from datetime import datetime, timedelta

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.models import answered_requests

#: How long an answered request is stored; no client waits longer for its answer.
REMEMBERED = timedelta(days=1)


async def answer(
    connection: AsyncConnection, request: str, auth_transaction_id: str, *, until: datetime
) -> bool:
    """Record that a transaction answers an authorization request; False if one has answered it already."""
    request_hash = hash_of(request)
    known = select(answered_requests.c.request_hash).where(answered_requests.c.request_hash == request_hash)
    if await connection.scalar(known) is not None:
        return False
    await connection.execute(
        insert(answered_requests).values(
            request_hash=request_hash, transaction_hash=hash_of(auth_transaction_id), expires_at=until
        )
    )
    return True
