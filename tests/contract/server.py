"""The server of the contract suite: the sandbox in process, or a real Nextcloud over HTTP."""

import base64
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.profile import NAMES, ProfileName

_USER_AGENT = "nextcloud-mcp-server contract suite"


@dataclass(slots=True)
class Server:
    """One Nextcloud, with the passwords of its users. `sandbox` is None for a real one.

    `version` is the profile of its responses, for a real one the nearest.
    """

    client: httpx2.AsyncClient
    base: str
    passwords: dict[str, str]
    version: ProfileName
    sandbox: Sandbox | None = None
    display_names: dict[str, str] = field(default_factory=dict[str, str])

    async def send(
        self,
        method: str,
        path: str,
        *,
        person: str | None = "alice",
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> httpx2.Response:
        """Send one request with the path unchanged; no cookie is kept."""
        url = httpx2.URL(self.base)
        url = url.copy_with(raw_path=url.raw_path.rstrip(b"/") + path.encode())
        sent = {"User-Agent": _USER_AGENT, **(headers or {})}
        if person is not None:
            sent["Authorization"] = basic(person, password or self.passwords[person])
        response = await self.client.request(method, url, headers=sent, content=body or None)
        self.client.cookies.clear()
        return response


def account(nextcloud: Nextcloud, server: Server, uid: str) -> Account:
    """Return a user's account with the password as credential."""
    return nextcloud.account(BasicCredential(uid, SecretStr(server.passwords[uid])), uid=uid)


def basic(login_name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{login_name}:{password}".encode()).decode()


@asynccontextmanager
async def open_sandbox(version: ProfileName) -> AsyncGenerator[Server]:
    # The clock stands still, so that two writes are always in the same second.
    now = datetime.now(UTC)
    sandbox = Sandbox(clock=lambda: now, version=version)
    passwords = {"alice": "alice's password", "bob": "bob's password", "admin": "admin's password"}
    for uid, name in (("alice", "Alice Example"), ("bob", "Bob Builder"), ("admin", "admin")):
        user = sandbox.add_user(uid, password=passwords[uid], display_name=name, admin=uid == "admin")
        user.email = f"{uid}@example.test"
        user.groups = ("team",)
    transport = httpx2.ASGITransport(app=sandbox.app)
    async with httpx2.AsyncClient(transport=transport) as client:
        yield Server(client, "http://nextcloud.test", passwords, version, sandbox)


@asynccontextmanager
async def open_real(base: str, users: str) -> AsyncGenerator[Server]:
    passwords = dict(pair.split(":", 1) for pair in users.split(","))
    async with httpx2.AsyncClient(timeout=60) as client:
        told = (await client.get(f"{base}/status.php")).json()["versionstring"]
        major = int(told.partition(".")[0])
        yield Server(client, base, passwords, min(NAMES, key=lambda name: abs(int(name) - major)))
