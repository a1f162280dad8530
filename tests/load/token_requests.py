"""Refreshes of our own tokens: how long one takes, and whether many at once agree."""

import os
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import file_url
from nextcloud_mcp_server.storage.records import Principal
from tests.load.client import CallFailed
from tests.load.our_server import our_server
from tests.load.servers import free_port
from tests.tokens_stage import (
    CALLBACK,
    NOW,
    VERIFIER,
    Moment,
    code_grant,
    converge,
    open_desk,
    open_token_workers,
    refresh_of,
)

TIMES = 300
_DATABASE = "nextcloud_mcp_bench"


@dataclass(frozen=True, slots=True)
class Agreement:
    """In how many tries five refreshes by two processes had one successor."""

    tries: int
    agreed: int


@dataclass(frozen=True, slots=True)
class TokenRequests:
    """The median of a refresh alone and of one over HTTP; `postgres` is None where there is none."""

    milliseconds: float
    http_milliseconds: float
    sqlite: Agreement
    postgres: Agreement | None


async def token_requests(folder: Path, tries: int) -> TokenRequests:
    """Measure on SQLite, and on the PostgreSQL that TEST_POSTGRES_URL names."""
    server = os.environ.get("TEST_POSTGRES_URL")
    return TokenRequests(
        milliseconds=await _milliseconds(file_url(folder / "time.db")),
        http_milliseconds=await _http_milliseconds(folder),
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


async def _http_milliseconds(folder: Path) -> float:
    """Time refreshes one after the other as a client does that keeps its connection; the median."""
    port, key, spent = free_port(), new_key(), list[float]()
    url = f"http://127.0.0.1:{port}"
    settings = {
        "mode": "builtin",
        # Never asked: a token request needs no Nextcloud.
        "nextcloud_host": "http://127.0.0.1:9",
        "nextcloud_mcp_server_url": url,
        "nextcloud_oauth_client_id": "us",
        "nextcloud_oauth_client_secret": "secret",
        "token_encryption_keys": key,
        "data_dir": str(folder),
    }
    async with our_server(settings, port=port, folder=folder), httpx2.AsyncClient(base_url=url) as http:
        tokens = await _connected(http, folder, key)
        for _ in range(TIMES):
            form = {"grant_type": "refresh_token", "client_id": tokens["client_id"]}
            began = time.perf_counter()
            answer = await http.post("/token", data={**form, "refresh_token": tokens["refresh_token"]})
            spent.append((time.perf_counter() - began) * 1000)
            tokens |= _given(answer)
    return statistics.median(spent)


async def _connected(http: httpx2.AsyncClient, folder: Path, key: str) -> dict[str, Any]:
    """Register a client at the server, and give it a code as if its person had walked through the pages."""
    url, moment = str(http.base_url).rstrip("/"), Moment()
    moment.now = datetime.now(UTC)
    described = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    client_id = _given(await http.post("/register", json=described))["client_id"]
    keys = KeyRing.parse([SecretStr(key)])
    async with open_desk(file_url(folder / "state.db"), keys, moment, issuer=url) as desk:
        who = Principal(url, "alice")
        code = await desk.give(code_grant(who, client_id=client_id, resource=f"{url}/mcp"))
    form = {"grant_type": "authorization_code", "client_id": client_id, "code": code}
    answer = await http.post("/token", data={**form, "redirect_uri": CALLBACK, "code_verifier": VERIFIER})
    return {**_given(answer), "client_id": client_id}


def _given(answer: httpx2.Response) -> dict[str, Any]:
    if not answer.is_success:
        raise CallFailed(f"{answer.url.path} answered {answer.status_code}: {answer.text}")
    given: dict[str, Any] = answer.json()
    return given


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
