"""Runs the migrations. Loads alembic, so it is only imported when there is something to migrate."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect

from nextcloud_mcp_server.storage import recognition


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
        ForeignDatabase: It holds tables of another program, or a newer version of this server wrote it.
    """
    recognition.refuse_schema(version, inspect(connection).get_table_names() if version is None else ())
    command.upgrade(configuration(connection), "head")
