"""Many users of one Nextcloud, connected through its app `oauth2`, and several server processes."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import parse_qs

import anyio
import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.auth.accounts import GrantedAccounts
from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.auth.broker import WAIT_SECONDS, Broker
from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider
from nextcloud_mcp_server.auth.consent.nextcloud_oauth2 import NextcloudOAuth2
from nextcloud_mcp_server.auth.consent.policy import Policy
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.auth.token_refresh import REQUEST_SECONDS
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    Grant,
    Permission,
    Principal,
    Tokens,
)
from tests.auth_fixtures import NEXTCLOUD, READ, ProcessHost, page_url

ISSUER = "https://issuer.test"
REDIRECT = "https://mcp.test/oauth/callback/nextcloud"
ACCOUNT = "https://mcp.test/account"
TOKEN = "/apps/oauth2/api/v1/token"


def caller(name: str = "alice", client_id: str = "claude") -> Caller:
    return Caller(Principal(ISSUER, f"sub-{name}"), client_id, "Claude Code")


@dataclass
class Replica:
    """One server process."""

    database: Database
    nextcloud: Nextcloud
    provider: NextcloudOAuth2
    broker: Broker
    outbox: Outbox
    accounts: GrantedAccounts

    async def grant(self, name: str = "alice") -> Grant:
        found = await self.grant_or_none(name)
        assert found is not None
        return found

    async def grant_or_none(self, name: str = "alice") -> Grant | None:
        who = caller(name)
        return await self.database.grants.find(who.principal, who.client_id)


@dataclass(frozen=True)
class Registered:
    """This server's client at a Nextcloud."""

    nextcloud_url: str
    client_id: str
    client_secret: SecretStr


def replica_of(
    database: Database,
    pool: httpx2.AsyncClient,
    client: Registered,
    *,
    clock: Callable[[], datetime],
    request_seconds: float = REQUEST_SECONDS,
    wait_seconds: float = WAIT_SECONDS,
    configured: bool = True,
) -> Replica:
    """Build the parts of one process."""
    url = client.nextcloud_url
    nextcloud = Nextcloud(NextcloudUrl.parse(url), pool)
    provider = NextcloudOAuth2(
        nextcloud,
        client_id=client.client_id,
        client_secret=client.client_secret,
        redirect_uri=REDIRECT,
        clock=clock,
    )
    providers = {provider.name: provider} if configured else {}
    broker = Broker(
        database, providers, clock=clock, request_seconds=request_seconds, wait_seconds=wait_seconds
    )
    app_passwords = LoginFlowProvider(nextcloud, database, clock=clock)
    outbox = Outbox(database, app_passwords, clock=clock, within=None, redirects=providers)
    policy = Policy(url, "nextcloud.test", frozenset(SCOPES), page_url)
    provisioning = Provisioning(database, app_passwords, policy, clock=clock, on_finished=_nobody_waits)
    accounts = GrantedAccounts(
        database,
        nextcloud,
        provisioning,
        outbox,
        AuditLog(database, clock=clock),
        broker=broker,
        account_url=ACCOUNT,
        monotonic=lambda: clock().timestamp(),
    )
    return Replica(database, nextcloud, provider, broker, outbox, accounts)


@dataclass
class Office:
    """The fixture of `auth_fixtures` with an OAuth client registered at its Nextcloud."""

    harness: ProcessHost
    client: Registered
    given: int = 0

    async def replica(
        self,
        *,
        request_seconds: float = REQUEST_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
        configured: bool = True,
    ) -> Replica:
        """Start another process on the same database."""
        harness = self.harness
        file = harness.folder / "state.db"
        if not file.exists():
            shutil.copy(harness.template, file)
        database = await Database.open(file_url(file), keys=harness.keys, clock=harness.clock)
        harness.stack.push_async_callback(database.aclose)
        pool = open_pool(ca_bundle=None, user_agent="Nextcloud MCP server (test)", transport=harness.network)
        return replica_of(
            database,
            pool,
            self.client,
            clock=harness.clock,
            request_seconds=request_seconds,
            wait_seconds=wait_seconds,
            configured=configured,
        )

    async def connect(self, replica: Replica, name: str = "alice", scopes: frozenset[str] = READ) -> Grant:
        """Complete the consent of one user."""
        exchanged = await replica.provider.exchange_code(code=self.code(name), verifier=None, nonce=None)
        await self.store(replica, exchanged.tokens, name, scopes, storage_id=exchanged.identity.storage_id)
        return await replica.grant(name)

    def code(self, name: str = "alice") -> SecretStr:
        """Grant access at Nextcloud, and return the code."""
        state = self.harness.sandbox.state
        client = next(one for one in state.oauth_clients if one.client_id == self.client.client_id)
        return SecretStr(state.new_oauth_grant(state.users[name], client, login_name=name).code)

    async def store(
        self,
        replica: Replica,
        tokens: Tokens,
        name: str = "alice",
        scopes: frozenset[str] = READ,
        *,
        storage_id: str | None = None,
    ) -> None:
        """Store a user's grant, as the end of a consent request does."""
        now, who = self.harness.clock(), caller(name)
        consent_request, _ = await replica.database.elicitations.open(
            principal=who.principal,
            client_id=who.client_id,
            client_name=who.client_name,
            kind="page",
            scopes=scopes,
            ttl=timedelta(minutes=10),
            new_url=page_url,
        )
        self.given += 1
        account = Account(f"account-{name}", who.principal, NEXTCLOUD, name, name.title(), storage_id, now)
        credential = Credential(
            f"credential-{name}-{self.given}",
            account.id,
            replica.provider.name,
            name,
            tokens.access_token,
            False,
            1,
            now,
            refresh_token=tokens.refresh_token,
            expires_at=tokens.expires_at,
        )
        await replica.database.grants.complete(
            elicitation=consent_request,
            flow=None,
            account=account,
            credential=credential,
            permission=Permission(who.principal, who.client_id, who.client_name, scopes, now),
            audit=AuditEntry(now, who.principal, who.client_id, "consent", "granted"),
        )

    def opens(self, credential: Credential | None) -> bool:
        """Tell whether Nextcloud accepts the access token now."""
        assert credential is not None
        state = self.harness.sandbox.state
        return state.find_app_password(credential.secret.get_secret_value()) is not None

    @property
    def families(self) -> int:
        """Count the valid grants at Nextcloud, stored here or not."""
        return len({one.grant_id for one in self.harness.sandbox.state.app_passwords.values()} - {None})

    def refreshes(self) -> int:
        """Count the requested token refreshes."""
        return len([one for one in self.harness.network.to(TOKEN) if is_refresh(one)])


def is_refresh(request: httpx2.Request) -> bool:
    form = parse_qs(request.content.decode())
    return request.url.path.endswith(TOKEN) and form.get("grant_type") == ["refresh_token"]


@dataclass
class Gate:
    """Delays token refreshes, before they reach Nextcloud or after its response."""

    came: anyio.Event
    open: anyio.Event

    async def __call__(self, request: httpx2.Request) -> None:
        if is_refresh(request) and not self.came.is_set():
            self.came.set()
            await self.open.wait()


def new_gate() -> Gate:
    """Return a gate for the first token refresh; later ones pass."""
    return Gate(anyio.Event(), anyio.Event())


async def _nobody_waits(elicitation_id: str) -> None:
    """Do nothing: no call is held here."""


def office_of(harness: ProcessHost) -> Office:
    """Register this server's client at the Nextcloud of the fixture, as an administrator does."""
    client = harness.sandbox.state.new_oauth_client("Assistants at mcp.test", REDIRECT)
    registered = Registered(NEXTCLOUD, client.client_id, SecretStr(client.client_secret))
    return Office(harness, registered)
