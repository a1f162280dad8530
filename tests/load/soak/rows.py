"""The rows of every table, and how many there may be after so many people, consents and calls."""

from collections.abc import Mapping
from contextlib import closing
from sqlite3 import connect

import asyncpg

from tests.load_cluster import LoadCluster

#: One or two rows for each audited event: a call, a consent, an end of access.
_BY_CALL = frozenset({"audit"})
#: One row for each session that its client ended, until a week after it began.
_BY_SESSION = frozenset({"ended_sessions"})
#: Rows of the users themselves.
_BY_PERSON = frozenset({"accounts", "credentials", "permissions"})
#: Rows that a user's consent or sign-in writes, and that are deleted later.
_MOST_OF_CONSENT = 6
#: Rows that exist whatever happens, such as the version of the schema and the keys.
_FREE = 10


async def counted(cluster: LoadCluster) -> dict[str, int]:
    """Count the rows of every table."""
    if cluster.database_url is None:
        with closing(connect(cluster.database_file)) as database:
            names = [
                name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
            ]
            return {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}
    server = await asyncpg.connect(cluster.database_url)
    try:
        found = await server.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        names = [row["tablename"] for row in found]
        return {name: await server.fetchval(f'SELECT count(*) FROM "{name}"') for name in names}
    finally:
        await server.close()


def beyond(rows: Mapping[str, int], *, people: int, consents: int, calls: int, sessions: int) -> list[str]:
    """Say which table has more rows than people, consents, calls and sessions that were ended explain."""
    found: list[str] = []
    for name, number in rows.items():
        most = _FREE + people
        if name not in _BY_PERSON:
            most += _MOST_OF_CONSENT * consents
        if name in _BY_CALL:
            most += 2 * calls
        if name in _BY_SESSION:
            most += sessions
        if number > most:
            found.append(f"{name} has {number} rows, at most {most} were expected")
    return found
