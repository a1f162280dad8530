"""Fixtures for this server's tokens: users, a client, codes; and processes that share a database."""

import base64
import hashlib
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from nextcloud_mcp_server.auth.builtin.tokens import Issued, Tokens
from nextcloud_mcp_server.storage.crypto import KeyRing
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import CodeGrant
from nextcloud_mcp_server.storage.records import Principal

ROOT = Path(__file__).parents[1]
NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
ISSUER = "https://mcp.example.org"
RESOURCE = f"{ISSUER}/mcp"
CALLBACK = "http://127.0.0.1:33418/callback"
CLIENT, OTHER_CLIENT = "mcp-claude", "mcp-codex"
ALICE, BOB = Principal(ISSUER, "alice"), Principal(ISSUER, "bob")
NOTES = frozenset({"notes:read", "notes:write"})
VERIFIER = "verifier-of-a-client-" + "v" * 30


def challenge_of(verifier: str) -> str:
    """Return the challenge of a verifier, as a client does (RFC 7636 §4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def code_grant(
    principal: Principal = ALICE,
    *,
    client_id: str = CLIENT,
    redirect_uri: str = CALLBACK,
    code_challenge: str = challenge_of(VERIFIER),
    resource: str = RESOURCE,
    storage_id: str | None = "00000007oc",
) -> CodeGrant:
    """Return what a user granted to a client that holds `VERIFIER`."""
    return CodeGrant(
        client_id=client_id,
        principal=principal,
        redirect_uri=redirect_uri,
        scopes=NOTES,
        code_challenge=code_challenge,
        resource=resource,
        storage_id=storage_id,
    )


class Moment:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def forward(self, span: timedelta) -> None:
        self.now += span


@dataclass
class Desk:
    """One process's tokens, and a client that requests them."""

    database: Database
    tokens: Tokens
    moment: Moment

    async def give(self, grant: CodeGrant) -> str:
        """Create a code."""
        return (await self.tokens.new_code(grant)).get_secret_value()

    async def code(self) -> str:
        """Create a code for Alice and her client."""
        return await self.give(code_grant())

    async def exchange_code(
        self,
        code: str,
        *,
        client_id: str = CLIENT,
        redirect_uri: str | None = CALLBACK,
        verifier: str | None = VERIFIER,
        resource: str | None = RESOURCE,
    ) -> Issued:
        """Exchange a code like its client."""
        return await self.tokens.exchange_code(
            code, client_id=client_id, redirect_uri=redirect_uri, verifier=verifier, resource=resource
        )

    async def issue(self, principal: Principal = ALICE, *, client_id: str = CLIENT) -> Issued:
        """Issue tokens for a user to a client."""
        code = await self.give(code_grant(principal, client_id=client_id))
        return await self.exchange_code(code, client_id=client_id)

    async def refresh(
        self,
        issued: Issued,
        *,
        client_id: str = CLIENT,
        scopes: frozenset[str] | None = None,
        resource: str | None = RESOURCE,
    ) -> Issued:
        """Refresh like the client that received these tokens."""
        return await self.tokens.refresh(
            refresh_of(issued), client_id=client_id, scopes=scopes, resource=resource
        )

    async def is_good(self, issued: Issued) -> bool:
        """Tell whether an access token is stored and valid."""
        return await self.database.oauth_tokens.find(access_of(issued)) is not None


def access_of(issued: Issued) -> str:
    """Return the access token."""
    return issued.access_token.get_secret_value()


def refresh_of(issued: Issued) -> str:
    """Return the refresh token."""
    return issued.refresh_token.get_secret_value()


@asynccontextmanager
async def open_desk(url: str, keys: KeyRing, moment: Moment, *, issuer: str = ISSUER) -> AsyncGenerator[Desk]:
    """Open the database as a further process."""
    database = await Database.open(url, keys=keys, clock=moment)
    try:
        tokens = Tokens(database, issuer=issuer, resource=f"{issuer}/mcp", keys=keys, clock=moment)
        yield Desk(database, tokens, moment)
    finally:
        await database.aclose()


@dataclass
class TokenWorker:
    """A server process; see tests/token_worker.py and tests/sign_in_worker.py."""

    process: Process
    answers: BufferedByteReceiveStream

    async def order(self, **order: object) -> None:
        """Let it start a task."""
        assert self.process.stdin is not None
        await self.process.stdin.send(json.dumps(order).encode() + b"\n")

    async def answer(self) -> list[Any]:
        """Wait for its result."""
        with anyio.fail_after(200):
            return json.loads(await self.answers.receive_until(b"\n", 100_000))


@asynccontextmanager
async def open_token_workers(
    url: str, key: str, count: int, *, module: str = "tests.token_worker"
) -> AsyncGenerator[list[TokenWorker]]:
    """Start processes on one database; they are ended with the block."""
    workers: list[TokenWorker] = []
    try:
        for _ in range(count):
            process = await anyio.open_process(
                [sys.executable, "-m", module],
                cwd=ROOT,
                stderr=None,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            assert process.stdout is not None
            worker = TokenWorker(process, BufferedByteReceiveStream(process.stdout))
            await worker.order(url=url, key=key)
            workers.append(worker)
        yield workers
    finally:
        with anyio.CancelScope(shield=True):
            for worker in workers:
                if worker.process.returncode is None:
                    worker.process.kill()
                await worker.process.aclose()


async def converge(workers: list[TokenWorker], token: str, *, at: datetime) -> set[str]:
    """Let two processes refresh one token five times at once; return the resulting tokens."""
    first, second = workers
    await first.order(refresh=token, times=3, at=at.isoformat())
    await second.order(refresh=token, times=2, at=at.isoformat())
    answers = [*await first.answer(), *await second.answer()]
    assert len(answers) == 5
    return set(answers)
