import logging
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import aiosqlite
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from nextcloud_mcp_server.storage.engine import backend_of, file_url
from nextcloud_mcp_server.storage.sqlite_driver import WholeConnection, connect


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncGenerator[WholeConnection]:
    opened = await connect(tmp_path / "test.db", timeout=0.1)
    await opened.cursor().execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")
    yield opened
    await opened.close()


async def test_a_statement_gives_its_rows_and_what_it_did(connection: WholeConnection) -> None:
    cursor = connection.cursor()

    await cursor.execute("INSERT INTO notes (title) VALUES (?) RETURNING id, title", ["Shopping"])

    assert await cursor.fetchall() == [(1, "Shopping")]
    assert [column[0] for column in cursor.description] == ["id", "title"]
    assert (cursor.rowcount, cursor.lastrowid) == (1, 1)


async def test_a_statement_without_rows_gives_none(connection: WholeConnection) -> None:
    cursor = connection.cursor()

    await cursor.executemany("INSERT INTO notes (title) VALUES (?)", [["a"], ["b"], ["c"]])

    assert cursor.description is None
    assert await cursor.fetchall() == []
    assert cursor.rowcount == 3


async def test_a_statement_that_fails_leaves_the_connection_as_it_was(
    connection: WholeConnection, tmp_path: Path
) -> None:
    with pytest.raises(aiosqlite.IntegrityError):
        await connection.cursor().execute("INSERT INTO notes (title) VALUES (NULL)")

    async with aiosqlite.connect(tmp_path / "test.db", timeout=0.1) as other:
        await other.execute("BEGIN IMMEDIATE")
        await other.rollback()


async def test_a_transaction_can_be_taken_back_and_without_one_nothing_is(
    connection: WholeConnection,
) -> None:
    await connection.cursor().execute("BEGIN")
    await connection.cursor().execute("INSERT INTO notes (title) VALUES ('a')")
    await connection.rollback()
    await connection.rollback()

    cursor = connection.cursor()
    await cursor.execute("SELECT count(*) FROM notes")
    assert await cursor.fetchall() == [(0,)]


async def test_the_library_above_makes_one_round_trip_for_each_statement(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = backend_of(file_url(tmp_path / "test.db")).engine()
    async with engine.connect() as opened:
        await opened.execute(text("CREATE TABLE notes (title TEXT NOT NULL)"))
    caplog.set_level(logging.DEBUG, "aiosqlite")

    async with engine.connect() as opened:
        found = (await opened.execute(text("SELECT title FROM notes"))).all()
    async with engine.begin() as opened:
        given = (await opened.execute(text("INSERT INTO notes VALUES ('a') RETURNING title"))).all()

    assert (found, [tuple(row) for row in given]) == ([], [("a",)])
    authorization = [record for record in caplog.records if record.getMessage().startswith("executing")]
    assert len(authorization) == 3, "the query, the statement, its commit"
    await engine.dispose()


async def test_an_error_of_the_database_is_the_library_s_own(tmp_path: Path) -> None:
    engine = backend_of(file_url(tmp_path / "test.db")).engine()
    async with engine.begin() as opened:
        await opened.execute(text("CREATE TABLE notes (title TEXT NOT NULL)"))
        with pytest.raises(IntegrityError):
            await opened.execute(text("INSERT INTO notes VALUES (NULL)"))
        await opened.execute(text("INSERT INTO notes VALUES (:title)"), [{"title": "a"}, {"title": "b"}])

    async with engine.connect() as opened:
        assert await opened.scalar(text("SELECT count(*) FROM notes")) == 2
    await engine.dispose()


@pytest.mark.process
def test_a_process_ends_though_a_connection_was_not_closed(tmp_path: Path) -> None:
    lines = (
        "import sys, anyio",
        "from pathlib import Path",
        "from nextcloud_mcp_server.storage.sqlite_driver import connect",
        "async def main():",
        "    global kept",
        "    kept = await connect(Path(sys.argv[1]), timeout=0.1)",
        "anyio.run(main)",
    )

    # Ends by itself, or by the time limit.
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines), str(tmp_path / "test.db")], check=False, timeout=60
    )

    assert done.returncode == 0
