"""Runs the migrations. Loads alembic, so it is only imported when there is something to migrate."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, inspect

from nextcloud_mcp_server.errors import ForeignDatabase, StorageError
from nextcloud_mcp_server.storage.models import VERSION_TABLE


def migrations_folder() -> Path:
    """Return the folder of the migrations: the nearest folder `alembic` above this module.

    It is at the top of a checkout, and at the top of the package that a wheel installs.
    """
    folders = (parent / "alembic" for parent in Path(__file__).parents)
    return next(folder for folder in folders if (folder / "env.py").is_file())


def configuration(connection: Connection) -> Config:
    """Build alembic's configuration, on a connection that is in a transaction."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection, *, version: str | None) -> None:
    """Upgrade the schema from `version` (None: an empty database) to the newest.

    Raises:
        ForeignDatabase: It holds tables of another program.
        StorageError: A newer version of this server wrote the schema.
    """
    config = configuration(connection)
    if version is None:
        _refuse_foreign(connection)
    else:
        _refuse_newer(config, version)
    command.upgrade(config, "head")


def _refuse_foreign(connection: Connection) -> None:
    tables = sorted(set(inspect(connection).get_table_names()) - {VERSION_TABLE})
    if tables:
        raise ForeignDatabase(
            f"The database already holds tables of another program, such as {tables[0]!r}."
            " Give this server a database of its own in DATABASE_URL."
        )


def _refuse_newer(config: Config, version: str) -> None:
    try:
        ScriptDirectory.from_config(config).get_revision(version)
    except CommandError as error:
        raise StorageError(
            f"The database was written by a newer version of this program (schema {version})."
            " Update the program, or put back a backup from before the update."
        ) from error
