"""Recognizes a database: whether it is this server's, of a version that it knows, and sealed with its keys.

Imports no SQLAlchemy: a server that a client starts over stdio asks this before anything is opened.
"""

from collections.abc import Collection, Sequence

from nextcloud_mcp_server.errors import ConfigurationError, ForeignDatabase

#: The newest migration. It is compared with the database before alembic is loaded.
SCHEMA_VERSION = "0014"
#: Not alembic's default name, which another program in the same database might use.
VERSION_TABLE = "nextcloud_mcp_version"
#: The table with the ids of the keys.
KEY_TABLE = "sealing_keys"
#: Names no package of an index: the one of this name there is another project.
MISSING_DRIVER = (
    "DATABASE_URL names a database in PostgreSQL, whose driver is not installed: install this program again with the "
    "extra 'postgres', as docs/operate/postgresql.md says (uv tool install 'nextcloud-mcp-server[postgres] @ "
    "git+ADDRESS')."
)


def refuse_schema(version: str | None, tables: Collection[str]) -> None:
    """Refuse a database with the tables of another program, or of a version that is not known.

    Raises:
        ForeignDatabase: It can never be used with these settings.
    """
    if version is None:
        _refuse_tables(sorted(set(tables) - {VERSION_TABLE}))
    elif not version.isdecimal() or len(version) != len(SCHEMA_VERSION) or version > SCHEMA_VERSION:
        raise ForeignDatabase(
            f"The database was written by a newer version of this program (schema {version})."
            " Update the program, or put back a backup from before the update."
        )


def _refuse_tables(tables: Sequence[str]) -> None:
    if tables:
        raise ForeignDatabase(
            f"The database already holds tables of another program, such as {tables[0]!r}."
            " Give this server a database of its own in DATABASE_URL."
        )


def refuse_keys(known: Collection[bytes], ids: Collection[bytes], *, source: str) -> None:
    """Refuse a database that was sealed with other keys; `known` are the ids of its keys, `source` has ours.

    Raises:
        ConfigurationError: None of our keys is one of the database's.
    """
    if not known or not set(known).isdisjoint(ids):
        return
    shown = ", ".join(sorted(key_id.hex() for key_id in known))
    what = "than those of" if ids else "which is not in"
    raise ConfigurationError(
        f"The database was sealed with another key ({shown}) {what} {source}: put that key back there. If it is lost, "
        "'nextcloud-mcp-server keys rotate' goes on with a new one, and every user connects again."
    )
