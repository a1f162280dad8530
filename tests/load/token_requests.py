"""Measures refreshes of this server's tokens: their time, and whether concurrent ones agree."""

import json
import os
import re
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import anyio
import asyncpg
import httpx2
from anyio.abc import SocketStream
from pydantic import SecretStr

from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import file_url
from nextcloud_mcp_server.storage.records import Account, AuditEntry, Credential, Permission, Principal
from tests.load.client import CallFailed
from tests.load.our_server import our_server
from tests.load.servers import free_port
from tests.tokens_fixtures import (
    CALLBACK,
    NOW,
    VERIFIER,
    Desk,
    Moment,
    code_grant,
    converge,
    open_desk,
    open_token_workers,
    refresh_of,
)

TIMES = 300
NEXTCLOUD = "http://127.0.0.1:9"
_DATABASE = "nextcloud_mcp_bench"


@dataclass(frozen=True, slots=True)
class Agreement:
    """The number of attempts in which five refreshes by two processes had one successor."""

    tries: int
    agreed: int


@dataclass(frozen=True, slots=True)
class TokenRequests:
    """The median of a refresh alone and of one over HTTP; `postgres` is None without one."""

    milliseconds: float
    http_milliseconds: float
    sqlite: Agreement
    postgres: Agreement | None


async def token_requests(folder: Path, tries: int) -> TokenRequests:
    """Measure with SQLite, and with the PostgreSQL at TEST_POSTGRES_URL."""
    server = os.environ.get("TEST_POSTGRES_URL")
    return TokenRequests(
        milliseconds=await _milliseconds(file_url(folder / "time.db")),
        http_milliseconds=await _http_milliseconds(folder),
        sqlite=await _agreement(file_url(folder / "race.db"), tries),
        postgres=await _agreement(await _empty_database(server), tries) if server else None,
    )


async def _milliseconds(url: str) -> float:
    """Return the median time of consecutive refreshes."""
    spent: list[float] = []
    async with open_desk(url, KeyRing.parse([SecretStr(new_key())]), Moment()) as desk:
        issued = await desk.issue()
        for _ in range(TIMES):
            began = time.perf_counter()
            issued = await desk.refresh(issued)
            spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent)


async def _http_milliseconds(folder: Path) -> float:
    """Return the median time of consecutive refreshes on one connection."""
    port, key, spent = free_port(), new_key(), list[float]()
    url = f"http://127.0.0.1:{port}"
    settings = {
        "mode": "builtin",
        # Not running: a refresh asks it whether the account is still enabled, and continues when it cannot tell.
        "nextcloud_host": NEXTCLOUD,
        "nextcloud_mcp_server_url": url,
        "nextcloud_oauth_client_id": "us",
        "nextcloud_oauth_client_secret": "secret",
        "token_encryption_keys": key,
        "data_dir": str(folder),
    }
    async with our_server(settings, port=port, folder=folder):
        async with httpx2.AsyncClient(base_url=url) as http:
            tokens = await _connected(http, folder, key)
        form = {"grant_type": "refresh_token", "client_id": tokens["client_id"]}
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            for _ in range(TIMES):
                request = _request({**form, "refresh_token": tokens["refresh_token"]}, port)
                began = time.perf_counter()
                answer = await _answer(stream, request)
                spent.append((time.perf_counter() - began) * 1000)
                tokens |= answer
    return statistics.median(spent)


def _request(form: dict[str, str], port: int) -> bytes:
    body = urlencode(form)
    head = (
        "POST /token HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*head, "", body)).encode()


async def _answer(stream: SocketStream, request: bytes) -> dict[str, Any]:
    """Send a prepared request, so that the time of an HTTP client is not measured."""
    await stream.send(request)
    received = b""
    while True:
        received += await stream.receive()
        head, _, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)^content-length: (\d+)", head, re.MULTILINE)
        if length and len(body) >= int(length[1]):
            break
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise CallFailed(f"/token answered {received.decode()}")
    answer: dict[str, Any] = json.loads(body)
    return answer


async def _connected(http: httpx2.AsyncClient, folder: Path, key: str) -> dict[str, Any]:
    """Register a client at the server, and give it a code as if its user had completed the pages."""
    url, moment = str(http.base_url).rstrip("/"), Moment()
    moment.now = datetime.now(UTC)
    described = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    client_id = _given(await http.post("/register", json=described))["client_id"]
    keys = KeyRing.parse([SecretStr(key)])
    async with open_desk(file_url(folder / "state.db"), keys, moment, issuer=url) as desk:
        who = Principal(url, "alice")
        await _connect(desk, who)
        code = await desk.give(code_grant(who, client_id=client_id, resource=f"{url}/mcp"))
    form = {"grant_type": "authorization_code", "client_id": client_id, "code": code}
    answer = await http.post("/token", data={**form, "redirect_uri": CALLBACK, "code_verifier": VERIFIER})
    return {**_given(answer), "client_id": client_id}


async def _connect(desk: Desk, who: Principal) -> None:
    """Store a connection, without which a refresh is refused."""
    now, database = desk.moment(), desk.database
    request, _ = await database.elicitations.open(
        principal=who,
        client_id="bench",
        client_name="Bench",
        kind="page",
        scopes=frozenset(SCOPES),
        ttl=timedelta(minutes=10),
        new_url=lambda elicitation_id: elicitation_id,
    )
    account = Account("account", who, NEXTCLOUD, who.subject, "Alice", None, now)
    credential = Credential(
        id="credential",
        account_id=account.id,
        provider="nextcloud_oauth2",
        login_name=who.subject,
        secret=SecretStr("access"),
        needs_reauth=False,
        version=1,
        created_at=now,
        refresh_token=SecretStr("refresh"),
        expires_at=now + timedelta(hours=1),
    )
    await database.grants.complete(
        elicitation=request,
        flow=None,
        account=account,
        credential=credential,
        permission=Permission(who, "bench", "Bench", frozenset(SCOPES), now),
        audit=AuditEntry(now, who, "bench", "consent", "granted"),
    )


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
