"""Authorization requests that have their code, of which each gets one. Within the caller's transaction."""

from datetime import datetime, timedelta

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.models import answered_requests

#: No client waits for the answer to a request that old.
REMEMBERED = timedelta(days=1)


async def answer(
    connection: AsyncConnection, request: str, auth_transaction_id: str, *, until: datetime
) -> bool:
    """Note that a transaction answers an authorization request; False when it was answered before by any."""
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
