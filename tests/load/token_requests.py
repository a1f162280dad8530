"""Refreshes of our own tokens: how long one takes, and whether many at once agree."""

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
from pydantic import SecretStr

from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import file_url
from tests.tokens_stage import NOW, Moment, converge, open_desk, open_token_workers, refresh_of

TIMES = 300
_DATABASE = "nextcloud_mcp_bench"


@dataclass(frozen=True, slots=True)
class Agreement:
    """In how many tries five refreshes by two processes had one successor."""

    tries: int
    agreed: int


@dataclass(frozen=True, slots=True)
class TokenRequests:
    """`postgres` is None where there is none."""

    milliseconds: float
    sqlite: Agreement
    postgres: Agreement | None


async def token_requests(folder: Path, tries: int) -> TokenRequests:
    """Measure on SQLite, and on the PostgreSQL that TEST_POSTGRES_URL names."""
    server = os.environ.get("TEST_POSTGRES_URL")
    return TokenRequests(
        milliseconds=await _milliseconds(file_url(folder / "time.db")),
        sqlite=await _agreement(file_url(folder / "race.db"), tries),
        postgres=await _agreement(await _empty_database(server), tries) if server else None,
    )


async def _milliseconds(url: str) -> float:
    """Time refreshes one after the other; the median."""
    spent: list[float] = []
    async with open_desk(url, KeyRing.parse([SecretStr(new_key())]), Moment()) as desk:
        issued = await desk.issue()
        for _ in range(TIMES):
            began = time.perf_counter()
            issued = await desk.refresh(issued)
            spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent)


async def _agreement(url: str, tries: int) -> Agreement:
    key, agreed = new_key(), 0
    async with open_desk(url, KeyRing.parse([SecretStr(key)]), Moment()) as desk:
        token = refresh_of(await desk.issue())
        async with open_token_workers(url, key, 2) as workers:
            for _ in range(tries):
                successors = await converge(workers, token, at=NOW)
                agreed += len(successors) == 1
                token = successors.pop()
    return Agreement(tries, agreed)


async def _empty_database(server: str) -> str:
    connection = await asyncpg.connect(server)
    await connection.execute(f"DROP DATABASE IF EXISTS {_DATABASE}")
    await connection.execute(f"CREATE DATABASE {_DATABASE}")
    await connection.close()
    return urlsplit(server)._replace(path=f"/{_DATABASE}").geturl()
