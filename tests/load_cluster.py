"""Many users: a Nextcloud and an identity provider with their accounts, and this server as processes."""

import socket
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
from pydantic import SecretStr
from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.consent.nextcloud_oauth2 import NextcloudOAuth2
from nextcloud_mcp_server.auth.consent.policy import LIFETIME
from nextcloud_mcp_server.demo.wire_client import StatelessClient
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.notes.store import Changes, NoteStore
from nextcloud_mcp_server.sandbox.issuer import Issuer
from nextcloud_mcp_server.sandbox.issuer_state import Account as IssuerAccount
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.sandbox.state import OAuthClient
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.records import Account, AuditEntry, Credential, Permission, Principal
from tests.auth_fixtures import page_url
from tests.clients_fixtures import IN_ORDER
from tests.integration.personal_app import Clock

LIST = "nc_notes_list_notes"
CLIENT_ID = "assistant"
#: Declared by a client that receives a link at once, in every call anew.
URL_MODE: dict[str, Any] = {"elicitation": {"url": {}}}


def note_of(name: str) -> str:
    """Return the title of a user's only note, which is unique to the user."""
    return f"Note of {name}"


def move_in(sandbox: Sandbox, issuer: Issuer, name: str) -> None:
    """Give a user an account at both, and a note that identifies the user."""
    user = sandbox.add_user(name)
    NoteStore(user, sandbox.state.clock).create(Changes(title=note_of(name)))
    issuer.state.accounts[name] = IssuerAccount(f"sub-{name}", name, name, name.title(), f"{name}@x.test")


async def connect(
    names: Sequence[str],
    database: Database,
    sandbox: Sandbox,
    issuer: Issuer,
    nextcloud_url: str,
    *,
    scopes: Sequence[str] = IN_ORDER,
) -> None:
    """Store grants of these users, as if each had completed a consent request."""
    client, state = sandbox.state.oauth_clients[-1], sandbox.state
    pool = open_pool(ca_bundle=None, user_agent="test", transport=httpx2.ASGITransport(sandbox.app))
    provider = NextcloudOAuth2(
        Nextcloud(NextcloudUrl.parse(nextcloud_url), pool),
        client_id=client.client_id,
        client_secret=SecretStr(client.client_secret),
        redirect_uri=client.redirect_uri,
        clock=state.clock,
    )
    async with pool:
        for name in names:
            code = state.new_oauth_grant(state.users[name], client, login_name=name).code
            given = await provider.exchange_code(code=SecretStr(code), verifier=None, nonce=None)
            now, who = state.clock(), Principal(issuer.url, issuer.state.accounts[name].subject)
            consent_request, _ = await database.elicitations.open(
                principal=who,
                client_id=CLIENT_ID,
                client_name="Test",
                kind="page",
                scopes=frozenset(scopes),
                ttl=LIFETIME,
                new_url=page_url,
            )
            account = Account(
                str(uuid4()), who, nextcloud_url, name, name.title(), given.identity.storage_id, now
            )
            tokens = given.tokens
            credential = Credential(
                str(uuid4()),
                account.id,
                provider.name,
                name,
                tokens.access_token,
                False,
                1,
                now,
                refresh_token=tokens.refresh_token,
                expires_at=tokens.expires_at,
            )
            await database.grants.complete(
                elicitation=consent_request,
                flow=None,
                account=account,
                credential=credential,
                permission=Permission(who, CLIENT_ID, "Test", frozenset(scopes), now),
                audit=AuditEntry(now, who, CLIENT_ID, "consent", "granted"),
            )


@dataclass
class LoadCluster:
    """The users, and the settings of this server, whose address and database do not change."""

    sandbox: Sandbox
    issuer: Issuer
    clock: Clock
    nextcloud_url: str
    folder: Path
    port: int
    client: OAuthClient
    #: A PostgreSQL; None for SQLite in the folder.
    database_url: str | None = None
    #: What clients' tokens and the users' grants cover.
    scopes: Sequence[str] = IN_ORDER
    key: str = field(default_factory=new_key)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database_file(self) -> Path:
        return self.folder / "data" / "state.db"

    @property
    def settings(self) -> dict[str, str]:
        """The operator's settings, by field of `Settings`; capitals are environment variables."""
        return {
            "mode": "oidc",
            "nextcloud_host": self.nextcloud_url,
            "nextcloud_mcp_server_url": self.url,
            "oidc_issuer": self.issuer.url,
            "oidc_client_id": "us",
            "oidc_client_secret": "issuer-secret",
            "nextcloud_oauth_client_id": self.client.client_id,
            "nextcloud_oauth_client_secret": self.client.client_secret,
            "token_encryption_keys": self.key,
            "data_dir": str(self.folder / "data"),
            **({"database_url": self.database_url} if self.database_url else {}),
        }

    def token(self, name: str, *, client_id: str = CLIENT_ID) -> str:
        """Let the identity provider issue an access token for this server."""
        return self.issuer.access_token(
            name, audience=f"{self.url}/mcp", client_id=client_id, scope=" ".join(self.scopes)
        )

    def move_in(self, *names: str) -> None:
        """Create accounts for these users."""
        for name in names:
            move_in(self.sandbox, self.issuer, name)

    async def connect(self, *names: str) -> None:
        """Store grants of these users; this server need not run."""
        database = await Database.open(
            self.database_url or file_url(self.database_file),
            keys=KeyRing.parse([SecretStr(self.key)]),
            clock=self.clock,
        )
        await connect(names, database, self.sandbox, self.issuer, self.nextcloud_url, scopes=self.scopes)
        await database.aclose()

    @asynccontextmanager
    async def asking(self, name: str, **options: Any) -> AsyncGenerator[StatelessClient]:  # noqa: ANN401 - the client's options
        """Yield a user's client without a session."""
        headers = {"Authorization": f"Bearer {self.token(name)}"}
        async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
            yield StatelessClient(http, f"{self.url}/mcp", capabilities=URL_MODE, **options)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Read committed rows directly from the database."""
        with closing(sqlite3.connect(self.database_file)) as connection:
            return connection.execute(query).fetchall()


@asynccontextmanager
async def open_cluster(
    folder: Path,
    *,
    front: Callable[[ASGIApp], ASGIApp] | None = None,
    database_url: str | None = None,
    scopes: Sequence[str] = IN_ORDER,
) -> AsyncGenerator[LoadCluster]:
    """Serve a Nextcloud and an identity provider, for this server on a port of its own.

    `front` wraps the Nextcloud's application.
    """
    clock = Clock()
    sandbox, issuer = Sandbox.demo(clock=clock), Issuer(scopes=scopes, clock=clock)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    callback = f"http://127.0.0.1:{port}/oauth/callback"
    issuer.add_client("us", redirect_uris=[f"{callback}/sign-in"], secret="issuer-secret")
    client = sandbox.state.new_oauth_client("MCP server", f"{callback}/nextcloud")
    if front is not None:
        sandbox.app.add_middleware(front)
    async with serving(sandbox) as nextcloud_url, serving(issuer):
        yield LoadCluster(sandbox, issuer, clock, nextcloud_url, folder, port, client, database_url, scopes)
