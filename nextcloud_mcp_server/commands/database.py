"""Migrates and copies the database, and prints its schema's version."""

import shutil
import sys
import tempfile
from pathlib import Path

import anyio

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.commands.console import result, say
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server.database_file import copy_file, database_file, schema_of
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings

#: The name of a file that stands for the standard output.
_STDOUT = "-"


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


def backup(settings: Settings, into: Path) -> None:
    """Copy the database file beside a running server; `-` prints the copy.

    Raises:
        ConfigurationError: The database is not a file, or the copy would replace one.
        StorageError: It cannot be copied.
    """
    file = database_file(settings)
    if file is None:
        raise ConfigurationError(
            "The database is in PostgreSQL, which makes its own backups: pg_dump --format custom mcp > mcp.dump"
        )
    if not file.exists():
        raise ConfigurationError(f"There is no database {file}: run this with the settings of the server.")
    if str(into) == _STDOUT:
        # In the folder of the database, which a server may always write to.
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            copy = Path(folder, "copy.db")
            copy_file(file, copy)
            with copy.open("rb") as source:
                shutil.copyfileobj(source, sys.stdout.buffer)
    else:
        if into.exists():
            raise ConfigurationError(
                f"{into} exists already: name a new file, which is then a backup of its own."
            )
        copy_file(file, into)
        result(f"The database was copied to {into}.")
    say(f"Keep the keys too, in another place ({settings.key_source}): without them a copy cannot be read.")
