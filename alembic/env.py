"""Runs migrations on the connection the server hands in, or on `-x url=…` from the command line."""

import anyio
from alembic import context
from sqlalchemy import Connection

from nextcloud_mcp_server.storage.engine import backend_of
from nextcloud_mcp_server.storage.models import metadata
from nextcloud_mcp_server.storage.recognition import VERSION_TABLE


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        # SQLite can undo schema changes, though alembic thinks otherwise by default.
        transactional_ddl=True,
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_on(url: str) -> None:
    backend = backend_of(url)
    engine = backend.engine()
    async with engine.begin() as connection:
        await connection.run_sync(backend.begin_writing)
        await connection.run_sync(run)
    await engine.dispose()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    anyio.run(run_on, context.get_x_argument(as_dictionary=True)["url"])
