"""Migrates the database, and prints its schema's version."""

import anyio

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.commands.console import result
from nextcloud_mcp_server.server.database_file import schema_of
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings


def upgrade(settings: Settings) -> None:
    """Migrate to the newest schema, as each start of the server does."""
    logs.set_up(settings.log_level, settings.log_format)
    anyio.run(_upgrade, settings)
    current(settings)


async def _upgrade(settings: Settings) -> None:
    async with open_database(settings):
        pass


def current(settings: Settings) -> None:
    """Print the schema's version without changing anything."""
    result(anyio.run(schema_of, settings) or "no schema yet: it is made at first use")
