"""Runs migrations on the connection the server hands in, or on `-x url=…` from the command line."""

from alembic import context
from sqlalchemy import Connection, create_engine

from nextcloud_mcp_server.storage.models import VERSION_TABLE, metadata


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


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with create_engine(context.get_x_argument(as_dictionary=True)["url"]).begin() as made:
        run(made)
