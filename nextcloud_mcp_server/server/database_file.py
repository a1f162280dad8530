"""Reads the schema version of a database without writing to it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.settings.environment import Settings

_VERSION_QUERY = "SELECT version_num FROM nextcloud_mcp_version"


def database_file(settings: Settings) -> Path | None:
    """Return the file of a SQLite database; None for PostgreSQL."""
    scheme, _, rest = settings.database_address.partition("://")
    return Path(rest.removeprefix("/").partition("?")[0]) if scheme.startswith("sqlite") else None


def has_state(settings: Settings) -> bool:
    """Return whether an earlier process may have left a grant, a consent request or a pending revocation."""
    file = database_file(settings)
    return file is None or file.exists()


async def schema_of(settings: Settings) -> str | None:
    """Return the version of the schema; None if there is none yet.

    Raises:
        ConfigurationError: The address is not that of a database, or its driver is missing.
        StorageError: The database cannot be read.
    """
    file = database_file(settings)
    if file is not None:
        return schema_version(file)
    # Importing it takes a quarter of a second.
    from nextcloud_mcp_server.storage.engine import postgres_version  # noqa: PLC0415 - see above

    return await postgres_version(settings.database_address)


def schema_version(file: Path) -> str | None:
    """Return the version of a database file; None if there is no file, or no table of this server in it.

    Raises:
        StorageError: The file is no database, or it is damaged.
    """
    if not file.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return str(connection.execute(_VERSION_QUERY).fetchone()[0])
    except sqlite3.OperationalError:
        return None
    except sqlite3.DatabaseError as error:
        raise StorageError(
            f"{file} cannot be read as a database ({error}): put back a backup, or move it away and "
            "connect again."
        ) from error
