"""Creates the schema of an empty database once by migrations, then by repeating statements.

Alembic plans each migration anew, which takes 0.1 to 0.5 s; more than a thousand tests begin with an empty database.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import groupby
from typing import Any

from alembic.config import Config
from sqlalchemy import Connection, event, inspect
from sqlalchemy.util import await_only

from nextcloud_mcp_server.storage.recognition import VERSION_TABLE
from nextcloud_mcp_server.storage.sqlite_driver import WholeConnection
from tests.kept_schema import KeptSchema

_READS = ("SELECT", "PRAGMA")


class ReplayedUpgrade:
    """Replaces alembic's `command.upgrade` for empty databases."""

    def __init__(self, upgrade: Callable[..., None], kept: KeptSchema) -> None:
        self._upgrade = upgrade
        self._kept = kept
        #: By dialect: each statement with its parameters.
        self._statements: defaultdict[str, list[tuple[str, Any]]] = defaultdict(list)

    def __call__(self, config: Config, revision: str) -> None:
        connection: Connection | None = config.attributes.get("connection")
        if revision != "head" or connection is None or inspect(connection).has_table(VERSION_TABLE):
            self._upgrade(config, revision)
            return
        postgres = connection.dialect.name == "postgresql"
        if postgres and self._kept.take(connection):
            return
        statements = self._statements[connection.dialect.name]
        if statements:
            _repeat(connection, statements)
        else:
            self._record(connection, statements, lambda: self._upgrade(config, revision))
        if postgres:
            self._kept.learn(connection)

    @staticmethod
    def _record(
        connection: Connection, statements: list[tuple[str, Any]], upgrade: Callable[[], None]
    ) -> None:
        heard: list[tuple[str, Any]] = []

        def hear(_: Connection, __: Any, statement: str, parameters: Any, *___: Any) -> None:  # noqa: ANN401 - the driver's
            if not statement.lstrip().upper().startswith(_READS):
                heard.append((statement, parameters or None))

        event.listen(connection, "before_cursor_execute", hear)
        try:
            upgrade()
        finally:
            event.remove(connection, "before_cursor_execute", hear)
        statements.extend(heard)


def _repeat(connection: Connection, statements: list[tuple[str, Any]]) -> None:
    """Run statements; with SQLite in one call to its thread, since each call costs more than a statement."""
    raw = connection.connection.driver_connection
    for whole, group in groupby(statements, lambda one: isinstance(raw, WholeConnection) and not one[1]):
        if whole and isinstance(raw, WholeConnection):
            # A script commits an open transaction before it begins.
            script = ";\n".join(["BEGIN IMMEDIATE", *(statement for statement, _ in group), ""])
            await_only(raw.executescript(script))
        else:
            for statement, parameters in group:
                connection.exec_driver_sql(statement, parameters)
