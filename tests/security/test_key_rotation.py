"""What an old key still opens after `keys rotate`, also when that was killed in the middle."""

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import anyio
import anyio.lowlevel
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.records import Principal
from tests.crash_harness import NEVER, ROOT
from tests.sealed_rows import Rows, opened_values, sealed_values

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
NEW, OLD = new_key(), new_key()
KILLS = 4


def ring(*keys: str) -> KeyRing:
    return KeyRing.parse([SecretStr(key) for key in keys])


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        file_url(tmp_path / "mcp.db")
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_url")
    )


@pytest.fixture
async def rows(url: str) -> AsyncGenerator[list[Rows]]:
    """Store the rows of three users, which the old key seals."""
    database = await Database.open(url, keys=ring(OLD), clock=lambda: NOW)
    found: list[Rows] = []
    for name in ("alice", "bob", "carol"):
        principal = Principal("https://issuer.example.org", name)
        found.append(Rows(database, lambda: NOW, principal=principal, name=name))
        await found[-1].fill()
    yield found
    await database.aclose()


def run(url: str, goes_off_at: int) -> tuple[int, int]:
    """Seal again in a process that is killed at this point; the answer is how it ended and how far it came."""
    order = json.dumps({"database": url, "keys": [NEW, OLD], "goes_off_at": goes_off_at})
    process = subprocess.run(
        [sys.executable, "-m", "tests.rotation_worker"],
        cwd=ROOT,
        input=f"{order}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode in (0, -signal.SIGKILL), process.stderr
    return process.returncode, json.loads(process.stdout)["passed"] if process.stdout else 0


async def test_after_a_rotation_the_old_key_opens_nothing_and_the_new_one_everything(
    url: str, rows: list[Rows]
) -> None:
    before = await opened_values(url, ring(OLD))
    operator = await Database.open(url, keys=ring(NEW, OLD), clock=lambda: NOW)

    await operator.key_rotation.rotate(pause=anyio.lowlevel.checkpoint, progress=lambda _: None)

    await operator.aclose()
    assert await opened_values(url, ring(OLD)) == []
    assert await opened_values(url, ring(NEW)) == before
    server = await Database.open(url, keys=ring(NEW), clock=lambda: NOW)
    for each in rows:
        assert all((await each.read(server)).values())
    await server.aclose()


@pytest.mark.process
async def test_a_rotation_that_is_killed_anywhere_loses_nothing_and_ends_when_it_is_run_again(
    url: str, rows: list[Rows]
) -> None:
    before, random = await opened_values(url, ring(OLD)), Random(14)

    kills = 0
    for _ in range(KILLS):
        # Each goes on where the one before was killed, so later ones have less to do.
        status, _ = run(url, random.randint(1, 40))
        kills += status == -signal.SIGKILL
        assert await opened_values(url, ring(NEW, OLD)) == before
    ended, _ = run(url, NEVER)

    assert kills > KILLS // 2
    assert ended == 0
    assert {each.key_id for values in (await sealed_values(url)).values() for each in values} == set(
        ring(NEW).ids
    )
    assert await opened_values(url, ring(NEW)) == before


async def test_nothing_in_the_file_is_sealed_with_the_old_key_once_it_was_compacted(
    tmp_path: Path,
) -> None:
    """SQLite keeps what was overwritten in its log and in free pages until then; docs/operate/keys.md says so."""
    path = tmp_path / "mcp.db"
    database = await Database.open(file_url(path), keys=ring(OLD), clock=lambda: NOW)
    await Rows(database, lambda: NOW).fill()
    await database.aclose()
    operator = await Database.open(file_url(path), keys=ring(NEW, OLD), clock=lambda: NOW)
    await operator.key_rotation.rotate(pause=anyio.lowlevel.checkpoint, progress=lambda _: None)
    await operator.aclose()

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")

    dump = b"".join([await file.read_bytes() async for file in anyio.Path(tmp_path).iterdir()])
    assert ring(NEW).ids[0] in dump
    assert ring(OLD).ids[0] not in dump
