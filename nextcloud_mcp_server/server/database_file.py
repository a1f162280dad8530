"""Reads the schema and the keys of a database without writing to it, and tries its folder."""

import contextlib
import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from nextcloud_mcp_server.errors import ConfigurationError, ForeignDatabase, StorageError
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.recognition import (
    KEY_TABLE,
    MISSING_DRIVER,
    SCHEMA_VERSION,
    VERSION_TABLE,
    refuse_keys,
    refuse_schema,
)

_TABLES_QUERY = "SELECT name FROM sqlite_master WHERE type = 'table'"
_VERSION_QUERY = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608 - a constant of ours
_KEYS_QUERY = f"SELECT key_id FROM {KEY_TABLE}"  # noqa: S608 - a constant of ours
#: Another process migrates the file, or holds its lock for another reason.
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
#: A full disk, a folder that cannot be written, a disk that fails: the file itself may be sound.
_NOT_THE_FILE = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
#: An extended error code holds the general one in its lowest byte.
_GENERAL = 0xFF
#: As much as one transaction of SQLite writes at least, with its log.
_PROBE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Stored:
    """What a database says of itself: its schema, None without one; its tables; the ids of its keys."""

    version: str | None
    tables: tuple[str, ...] = ()
    key_ids: frozenset[bytes] = frozenset()


def database_file(settings: Settings) -> Path | None:
    """Return the file of a SQLite database; None for PostgreSQL."""
    scheme, _, rest = settings.database_address.partition("://")
    return Path(rest.removeprefix("/").partition("?")[0]) if scheme.startswith("sqlite") else None


def has_state(settings: Settings) -> bool:
    """Return whether an earlier process may have left a grant, a consent request or a pending revocation."""
    file = database_file(settings)
    return file is None or file.exists()


def is_current(settings: Settings) -> bool:
    """Return whether a SQLite file can be used as it is: it has the present schema, and is sealed with our keys.

    Raises:
        ConfigurationError: The file was sealed with other keys, or the keys cannot be read.
        StorageError: It is no database, or it has tables of another program or a newer version.
    """
    file = database_file(settings)
    if file is None:
        return False
    stored = _read(file)
    refuse_unusable(settings, stored)
    return stored.version == SCHEMA_VERSION and bool(stored.key_ids)


async def schema_of(settings: Settings) -> str | None:
    """Return the version of the schema; None if there is none yet.

    Raises:
        ConfigurationError: The address is not that of a database, or its driver is missing.
        StorageError: The database cannot be read.
    """
    return (await stored_in(settings)).version


async def stored_in(settings: Settings) -> Stored:
    """Return what the database says of itself.

    Raises:
        ConfigurationError: The address is not that of a database, or its driver is missing.
        StorageError: The database cannot be read.
    """
    file = database_file(settings)
    if file is not None:
        return _read(file)
    # Importing it takes a quarter of a second.
    from nextcloud_mcp_server.storage.engine import postgres_state  # noqa: PLC0415 - see above

    return Stored(*await postgres_state(settings.database_address))


def copy_file(file: Path, into: Path) -> None:
    """Copy a database file as it is at one moment, while processes read and write it; the copy is 0600.

    Raises:
        StorageError: It cannot be read, or the copy cannot be written.
    """
    try:
        # Only its owner may read the copy, and no file is overwritten.
        os.close(os.open(into, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StorageError(f"The copy {into} cannot be made ({error.strerror}).") from error
    try:
        # `mode=ro`: a name that is wrong is an error, and makes no empty database.
        with (
            closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(into)) as copy,
        ):
            # In one step, so that it reads one transaction, and writers do not make it begin again.
            source.backup(copy)
    except sqlite3.Error as error:
        into.unlink()
        raise StorageError(f"The database {file} cannot be copied to {into} ({error}).") from error


def refuse_unusable_file(settings: Settings) -> None:
    """Refuse a database file that this server can never use with these keys; of PostgreSQL only its driver is tried.

    Raises:
        ConfigurationError: The file was sealed with other keys, or the keys cannot be read; the driver is missing.
        StorageError: It is no database, or it has tables of another program or a newer version.
    """
    file = database_file(settings)
    if file is not None:
        refuse_unusable(settings, _read(file))
    elif find_spec("asyncpg") is None:
        raise ConfigurationError(MISSING_DRIVER)


def refuse_unusable(settings: Settings, stored: Stored) -> None:
    """Refuse a database that this server can never use with these keys.

    Raises:
        ConfigurationError: It was sealed with other keys, or the keys cannot be read.
        ForeignDatabase: It has tables of another program or of a newer version.
    """
    refuse_schema(stored.version, stored.tables)
    if stored.key_ids:
        refuse_keys(stored.key_ids, _key_ids(settings), source=settings.key_source)


def _key_ids(settings: Settings) -> list[bytes]:
    """Return the ids of the configured keys; none where the key file is missing, which is not created here."""
    from nextcloud_mcp_server.storage.crypto import KeyRing, load_or_create_key_file  # noqa: PLC0415 - for state only

    if settings.token_encryption_keys:
        return KeyRing.parse(settings.token_encryption_keys, source=settings.key_source).ids
    if not settings.key_file.exists():
        return []
    return KeyRing.parse(load_or_create_key_file(settings.key_file)[0], source=settings.key_source).ids


def refuse_unwritable(settings: Settings) -> None:
    """Refuse a folder in which this server must write, and cannot; a folder that is missing is not created.

    A server whose keys are given and whose database is elsewhere writes nothing into the data folder.

    Raises:
        ConfigurationError: With the reason, such as a full disk.
    """
    file = database_file(settings)
    if file is not None:
        _refuse_folder(file.parent, file)
    if _makes_files(settings):
        _refuse_folder(settings.data_path, None)


def _makes_files(settings: Settings) -> bool:
    """Tell whether the key or the secret of HTTP clients has still to be made in the data folder."""
    makes_key = not settings.token_encryption_keys and not settings.key_file.exists()
    given = settings.no_local_auth or settings.nextcloud_mcp_secret is not None
    makes_secret = settings.transport == "http" and not settings.multi_user and not given
    return makes_key or (makes_secret and not settings.secret_file.exists())


def _refuse_folder(folder: Path, file: Path | None) -> None:
    try:
        _try_folder(folder)
        if file is not None and file.exists() and not os.access(file, os.W_OK):
            raise PermissionError(None, f"{file.name} is write-protected")
    except OSError as error:
        raise ConfigurationError(
            f"The data folder {folder} cannot be written ({error.strerror or error}): give the user of this server the "
            "right to write there, free some space, or set DATA_DIR to another folder."
        ) from error


def _try_folder(folder: Path) -> None:
    if folder.is_dir():
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * _PROBE_BYTES)
            probe.flush()
        return
    near = next((parent for parent in (folder, *folder.absolute().parents) if parent.exists()), folder)
    if not near.is_dir():
        raise NotADirectoryError(None, f"{near} is no folder")
    try:
        # Tried, not asked: the rights of root say nothing about file systems that take no folders.
        with tempfile.TemporaryDirectory(dir=near):
            pass
    except OSError as error:
        raise PermissionError(None, f"it cannot be made in {near}") from error


def _read(file: Path) -> Stored:
    if not file.exists():
        return Stored(None)
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return _stored(connection)
    except sqlite3.DatabaseError as error:
        code = error.sqlite_errorcode & _GENERAL
        if code in _BUSY:
            return Stored(None)
        if code in _NOT_THE_FILE:
            raise StorageError(
                f"{file} cannot be opened ({error}): check the free space, and that this account may write the file "
                "and its folder."
            ) from error
        kind = StorageError if isinstance(error, sqlite3.OperationalError) else ForeignDatabase
        raise kind(
            f"{file} cannot be read as a database ({error}): put back a backup, or move it away and "
            "connect again."
        ) from error


def _stored(connection: sqlite3.Connection) -> Stored:
    tables = tuple(name for (name,) in connection.execute(_TABLES_QUERY))
    if VERSION_TABLE not in tables:
        return Stored(None, tables)
    row = connection.execute(_VERSION_QUERY).fetchone()
    keys: frozenset[bytes] = frozenset()
    if KEY_TABLE in tables:
        with contextlib.suppress(sqlite3.OperationalError):  # of a newer version
            keys = frozenset(bytes(key) for (key,) in connection.execute(_KEYS_QUERY))
    return Stored(None if row is None else str(row[0]), tables, keys)
