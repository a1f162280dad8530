"""Hands the schema of a PostgreSQL test database on to the next test, without the rows.

PostgreSQL takes 0.2 s or more to make the schema, and several hundred tests begin with one. Renaming a schema takes a
millisecond.
"""

import asyncpg
from sqlalchemy import Connection, text

from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION, VERSION_TABLE

# Each column, index, constraint, trigger and function with its definition.
_FINGERPRINT = """
SELECT md5(string_agg(line, E'\n' ORDER BY line)) FROM (
  SELECT format('%s.%s %s %s', relname, attname, format_type(atttypid, atttypmod), attnotnull) AS line
    FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
   WHERE relnamespace = 'public'::regnamespace AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
   WHERE relnamespace = 'public'::regnamespace
  UNION ALL
  SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint
   WHERE connamespace = 'public'::regnamespace
  UNION ALL
  SELECT pg_get_triggerdef(pg_trigger.oid) FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
   WHERE relnamespace = 'public'::regnamespace AND NOT tgisinternal
  UNION ALL
  SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
) AS lines
"""
_DELETE_ROWS = f"""
DO $$
DECLARE found text;
BEGIN
  SET LOCAL session_replication_role = replica;
  FOR found IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> '{VERSION_TABLE}' LOOP
    EXECUTE format('DELETE FROM %I', found);
  END LOOP;
END $$
"""


class KeptSchema:
    """The schema that the last test left behind, in the database of this test process."""

    def __init__(self) -> None:
        self._fingerprint: str | None = None

    def learn(self, connection: Connection) -> None:
        """Remember what the schema looks like right after its creation."""
        self._fingerprint = connection.scalar(text(_FINGERPRINT))

    def take(self, connection: Connection) -> bool:
        """Make the kept schema the public one, which is empty; return whether there was one."""
        if connection.scalar(text("SELECT to_regnamespace('kept')")) is None:
            return False
        connection.exec_driver_sql("DROP SCHEMA public")
        connection.exec_driver_sql("ALTER SCHEMA kept RENAME TO public")
        return True

    async def keep(self, database: asyncpg.Connection) -> None:
        """Keep the schema of a test that has ended, unless the test changed it."""
        if self._fingerprint is None or await database.fetchval("SELECT to_regnamespace('kept')") is not None:
            return
        if await database.fetchval(_FINGERPRINT) != self._fingerprint:
            return
        if await database.fetchval(f"SELECT version_num FROM {VERSION_TABLE}") != SCHEMA_VERSION:
            return
        await database.execute(_DELETE_ROWS)
        await database.execute("ALTER SCHEMA public RENAME TO kept; CREATE SCHEMA public")
