"""Clients, browsers of users and a Nextcloud with accounts, around one real database."""

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.authorization import Authorization, Sent
from nextcloud_mcp_server.auth.builtin.authorize_request import Asked, Requests
from nextcloud_mcp_server.auth.builtin.client_fields import ClientRules
from nextcloud_mcp_server.auth.builtin.clients import Clients
from nextcloud_mcp_server.auth.builtin.documents import ClientDocuments
from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import NextcloudSignIn
from nextcloud_mcp_server.auth.builtin.page_sign_in import PageSignIn
from nextcloud_mcp_server.auth.builtin.tokens import Tokens
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider
from nextcloud_mcp_server.auth.consent.policy import Policy
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.storage.clients import ClientRepository
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.oauth_records import Client
from nextcloud_mcp_server.storage.records import Grant, Principal
from tests.auth_fixtures import NEXTCLOUD, READ, Clock, Network, page_url
from tests.clients_fixtures import Internet
from tests.consent_fixtures import Browser, Nextclouds, failing
from tests.issuer_fake import Params
from tests.tokens_fixtures import VERIFIER, challenge_of

ISSUER = "https://mcp.test"
RESOURCE = f"{ISSUER}/mcp"
CALLBACK = "https://claude.ai/api/mcp/auth_callback"
CLIENT = "mcp-claude"
ALICE, BOB = Principal(ISSUER, "alice"), Principal(ISSUER, "bob")
#: Identifies one browser.
COOKIE = "value-in-the-cookie-of-alice"


def asks(**changes: str | list[str] | None) -> Params:
    """Return a client's query; None leaves a parameter out, a list repeats it."""
    values: dict[str, str | list[str] | None] = {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": CALLBACK,
        "state": "state of the client",
        "code_challenge": challenge_of(VERIFIER),
        "code_challenge_method": "S256",
        "resource": RESOURCE,
        "scope": "notes:read notes:write",
        **changes,
    }
    return {
        name: [value] if isinstance(value, str) else value
        for name, value in values.items()
        if value is not None
    }


def query_of(url: str) -> dict[str, str]:
    """Return the parameters of a URL, each of which occurs once."""
    return {name: value for name, [value] in parse_qs(urlsplit(url).query, keep_blank_values=True).items()}


@dataclass
class InterruptedLookups:
    """The clients; `meanwhile` runs during a look-up, in place of what happens in another tab."""

    records: ClientRepository
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def find(self, client_id: str) -> Client | None:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return await self.records.find(client_id)

    async def save(self, client: Client) -> None:
        await self.records.save(client)

    async def used(self, client_id: str, *, at: datetime) -> None:
        raise NotImplementedError

    async def purge(self, *, unused_before: datetime, idle_before: datetime, most_unused: int) -> int:
        raise NotImplementedError


@dataclass
class AuthorizationFixture:
    """`Authorization` and `ConsentService` of mode `builtin`, with everything they need."""

    clock: Clock
    provider: Nextclouds
    internet: Internet
    database: Database
    provisioning: Provisioning
    outbox: Outbox
    tokens: Tokens
    clients: InterruptedLookups
    sign_in: NextcloudSignIn
    authorization: Authorization
    consent_service: ConsentService
    file: Path
    changes: list[None]
    requests: int = 0

    async def register(
        self,
        client_id: str = CLIENT,
        *redirect_uris: str,
        name: str = "Claude",
        scopes: frozenset[str] | None = None,
    ) -> Client:
        """Register a client."""
        client = Client(
            client_id=client_id,
            kind="registered",
            name=name,
            redirect_uris=redirect_uris or (CALLBACK,),
            auth_method="none",
            secret_hash=None,
            scopes=scopes,
            created_at=self.clock(),
            last_used_at=None,
            native=False,
        )
        await self.database.clients.save(client)
        return client

    async def asked(self, **changes: str | list[str] | None) -> Asked:
        """Send an authorization request of a client."""
        return await self.authorization.read(asks(**changes))

    async def to_nextcloud(self, cookie: str = COOKIE, scopes: frozenset[str] = READ) -> str:
        """Allow the client and go to Nextcloud's page, with a new request each time: each gets one code."""
        changes = {"state": f"state-{self.requests}"} if self.requests else {}
        self.requests += 1
        return await self.authorization.approve(await self.asked(**changes), scopes, browser=cookie)

    async def back(self, uid: str = "alice", cookie: str = COOKIE) -> str:
        """Go to Nextcloud and back as a user; return the id of the authorization transaction."""
        params = self.provider.confirm(await self.to_nextcloud(cookie), uid)
        return await self.finish_sign_in(params, browser=cookie)

    async def finish_sign_in(self, params: Params, *, browser: str) -> str:
        """Handle a callback with these parameters; return the id of the authorization transaction."""
        came = await self.authorization.check_callback(params, browser=browser)
        return await self.authorization.finish_sign_in(came, browser=browser)

    async def connect(self, uid: str = "alice", cookie: str = COOKIE) -> Sent:
        """Complete an authorization request."""
        return await self.authorization.confirm(await self.back(uid, cookie), browser=cookie)

    async def ask(self, name: str = "alice", client: str = CLIENT, scopes: frozenset[str] = READ) -> str:
        """Let a tool call ask its user for consent; return the id of the consent request."""
        caller = Caller(Principal(ISSUER, name), client, "Claude")
        grant = await self.database.grants.find(caller.principal, client)
        return (await self.provisioning.ask(caller, scopes, grant=grant)).elicitation_id

    async def browser(self, name: str = "alice", target: str = "account") -> Browser:
        """Sign a user in on a page."""
        start = await self.consent_service.begin_sign_in(target)
        params = self.provider.confirm(start.url, name)
        done = await self.consent_service.finish_sign_in(start.flow.get_secret_value(), params)
        assert done.target == target
        return Browser(done.signed_in, done.token.get_secret_value())

    async def grant(self, name: str = "alice", client: str = CLIENT) -> Grant | None:
        return await self.database.grants.find(Principal(ISSUER, name), client)

    async def given_back(self) -> list[str]:
        """List the access tokens that were revoked at Nextcloud, after running the outbox."""
        await self.outbox.run_once()
        return self.provider.revoked

    async def audit(self, name: str = "alice") -> list[tuple[str, str]]:
        recent = await self.database.audit.recent(Principal(ISSUER, name), 50)
        return [(entry.action, entry.result) for entry in recent]

    def failing(self, change: str) -> AbstractContextManager[None]:
        """Let one kind of change, such as `INSERT ON audit`, fail as on a full disk."""
        return failing(self.file, change)


@asynccontextmanager
async def open_authorization(
    folder: Path,
    template: Path,
    *,
    groups: frozenset[str] = frozenset(),
    allowed: AllowedClients | None = None,
    bound: frozenset[str] = frozenset(SCOPES),
) -> AsyncGenerator[AuthorizationFixture]:
    """Build the fixture on a database in this folder, which may have been opened before."""
    clock, internet, keys = Clock(), Internet(), KeyRing.parse([SecretStr(new_key())])
    provider = Nextclouds(clock)
    file = folder / "state.db"
    # Creating the schema takes a second, which not every test has to spend.
    shutil.copy(template, file)
    changes: list[None] = []

    def on_changed() -> None:
        changes.append(None)

    async def on_finished(elicitation_id: str) -> None:
        """Do nothing: no call is held here."""

    async with AsyncExitStack() as stack:
        database = await Database.open(file_url(file), keys=keys, clock=clock)
        stack.push_async_callback(database.aclose)
        line = open_pool(ca_bundle=None, user_agent="test", transport=Network(Sandbox.demo(clock=clock)))
        stack.push_async_callback(line.aclose)
        documents = internet.open()
        stack.push_async_callback(documents.aclose)
        policy = Policy(NEXTCLOUD, "nextcloud.test", bound, page_url)
        app_passwords = LoginFlowProvider(
            Nextcloud(NextcloudUrl.parse(NEXTCLOUD), line), database, clock=clock
        )
        provisioning = Provisioning(database, app_passwords, policy, clock=clock, on_finished=on_finished)
        outbox = Outbox(
            database, app_passwords, clock=clock, within=None, redirects={provider.name: provider}
        )
        tokens = Tokens(database, issuer=ISSUER, resource=RESOURCE, keys=keys, clock=clock)
        exchange_limiter = ExchangeLimiter(database, clock=clock)
        sign_in = NextcloudSignIn(
            database,
            provider,
            outbox=outbox,
            exchange_limiter=exchange_limiter,
            issuer=ISSUER,
            nextcloud_url=NEXTCLOUD,
            groups=groups,
            clock=clock,
        )
        clients = InterruptedLookups(database.clients)
        requests = Requests(
            Clients(clients, clock=clock, allowed=allowed),
            ClientDocuments(clients, ClientRules(scopes=bound), documents, clock=clock, hosts=allowed),
            issuer=ISSUER,
            resource=RESOURCE,
            bound=bound,
        )
        authorization = Authorization(
            database,
            requests,
            sign_in,
            tokens,
            outbox=outbox,
            keys=keys,
            issuer=ISSUER,
            nextcloud_url=NEXTCLOUD,
            clock=clock,
            on_changed=on_changed,
        )
        consent_service = ConsentService(
            database,
            provisioning,
            PageSignIn(database, sign_in),
            provider,
            outbox=outbox,
            policy=policy,
            exchange_limiter=exchange_limiter,
            clock=clock,
            on_changed=on_changed,
            tokens=tokens,
        )
        yield AuthorizationFixture(
            clock,
            provider,
            internet,
            database,
            provisioning,
            outbox,
            tokens,
            clients,
            sign_in,
            authorization,
            consent_service,
            file,
            changes,
        )
