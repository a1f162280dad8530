"""Many users with browsers, an identity provider and a grant provider, around one real database."""

import shutil
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider, Poller
from nextcloud_mcp_server.auth.consent.oidc_sign_in import SignIn
from nextcloud_mcp_server.auth.consent.policy import Policy
from nextcloud_mcp_server.auth.consent.provider import ExchangeResult, Identity, Note, OrphanedTokens
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.auth.discovery import Discovery
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.oauth_client import OAuthClient
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.errors import GrantRefused
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.records import (
    ElicitationState,
    Grant,
    LoginFlow,
    PendingGrant,
    Principal,
    SignedIn,
    Tokens,
)
from tests.auth_fixtures import NEXTCLOUD, READ, Clock, Network, page_url
from tests.issuer_fake import CLIENT, ISSUER, SECRET, Issuer, Params

SIGN_IN_CALLBACK = "https://mcp.test/oauth/callback/sign-in"
GRANT_CALLBACK = "https://mcp.test/oauth/callback/nextcloud"


@dataclass
class Nextclouds:
    """A grant provider like the core app `oauth2`, with every user's accounts in memory.

    `meanwhile` runs during a code exchange, in place of what happens in another tab. `afterwards` runs after the
    tokens have been issued, and before their account is known.
    """

    clock: Clock
    name: str = "nextcloud_oauth2"
    redirect_uri: str = GRANT_CALLBACK
    uses_pkce: bool = False
    uses_nonce: bool = False
    issuer: str | None = None
    homes: dict[str, str | None] = field(default_factory=dict[str, str | None])
    names: dict[str, str] = field(default_factory=dict[str, str])
    pictures: dict[str, Picture] = field(default_factory=dict[str, Picture])
    groups: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    sent: list[tuple[SecretStr | None, SecretStr | None]] = field(
        default_factory=list[tuple[SecretStr | None, SecretStr | None]]
    )
    exchanged: list[str] = field(default_factory=list[str])
    secrets: list[tuple[SecretStr | None, SecretStr | None]] = field(
        default_factory=list[tuple[SecretStr | None, SecretStr | None]]
    )
    revoked: list[str] = field(default_factory=list[str])
    subject: Principal | None = None
    meanwhile: Callable[[], Awaitable[object]] | None = None
    afterwards: Callable[[], Awaitable[object]] | None = None
    failure: Exception | None = None
    unreachable: Exception | None = None
    _codes: dict[str, str] = field(default_factory=dict[str, str])

    async def callback_issuer(self) -> str | None:
        return self.issuer

    async def authorize_url(self, *, state: str, verifier: SecretStr | None, nonce: SecretStr | None) -> str:
        self.sent.append((verifier, nonce))
        return f"{NEXTCLOUD}/authorize?state={state}"

    def confirm(self, url: str, uid: str) -> Params:
        """Grant access as a user who is signed in to Nextcloud; return the query of the callback."""
        code = f"granted-by-{uid}-{len(self._codes)}"
        self._codes[code] = uid
        params = {"state": parse_qs(urlsplit(url).query)["state"], "code": [code]}
        if self.issuer is not None:
            params["iss"] = [self.issuer]
        return params

    async def picture(self, tokens: Tokens, *, uid: str) -> Picture | None:
        return self.pictures.get(uid) if tokens.access_token.get_secret_value() else None

    async def exchange_code(
        self,
        *,
        code: SecretStr,
        verifier: SecretStr | None,
        nonce: SecretStr | None,
        note: Note | None = None,
    ) -> ExchangeResult:
        self.exchanged.append(text := code.get_secret_value())
        self.secrets.append((verifier, nonce))
        if self.failure is not None:
            if isinstance(self.failure, OrphanedTokens) and note is not None:
                await note(self.failure.tokens)
            raise self.failure
        if self.meanwhile is not None:
            await self.meanwhile()
        uid = self._codes.get(text)
        if uid is None:
            raise GrantRefused("The code is not accepted.")
        tokens = Tokens(
            SecretStr(f"access-{text}"), SecretStr(f"refresh-{text}"), self.clock() + timedelta(hours=1)
        )
        if note is not None:
            await note(tokens)
        if self.afterwards is not None:
            await self.afterwards()
        storage_id, groups = self.homes.get(uid, f"home-{uid}"), self.groups.get(uid, frozenset())
        identity = Identity(uid, self.names.get(uid, uid.title()), storage_id, groups)
        return ExchangeResult(tokens, identity, self.subject)

    async def refresh(self, refresh_token: SecretStr) -> Tokens:
        raise NotImplementedError

    async def revoke(self, tokens: Tokens) -> bool:
        if self.unreachable is not None:
            raise self.unreachable
        self.revoked.append(tokens.access_token.get_secret_value())
        return True


def run_sql(file: Path, statement: str) -> list[tuple[object, ...]]:
    """Read or change a database file directly."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


@contextmanager
def failing(file: Path, change: str) -> Generator[None]:
    """Let one kind of change, such as `INSERT ON audit`, fail as on a full disk."""
    name = change.replace(" ", "_")
    run_sql(file, f"CREATE TRIGGER {name} BEFORE {change} BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    try:
        yield
    finally:
        run_sql(file, f"DROP TRIGGER {name}")


@dataclass(frozen=True)
class Browser:
    """A browser with a signed-in user; its cookie and its form token are valid only together."""

    who: SignedIn
    token: str


@dataclass
class ConsentSetup:
    """`ConsentService` with everything it needs.

    `sandbox` is the Nextcloud of the login flows; otherwise `provider` takes its place.
    """

    clock: Clock
    sandbox: Sandbox
    network: Network
    issuer: Issuer
    provider: Nextclouds
    database: Database
    provisioning: Provisioning
    outbox: Outbox
    poller: Poller
    sign_in: SignIn
    consent_service: ConsentService
    keys: KeyRing
    file: Path
    finished: list[str]
    changes: list[None]
    make: Callable[[], ConsentService]
    new_poller: Callable[[], Poller]

    def caller(self, name: str, client: str = "claude") -> Caller:
        return Caller(Principal(ISSUER, name), client, f"Client {client}")

    async def ask(self, name: str = "alice", client: str = "claude", scopes: frozenset[str] = READ) -> str:
        """Let a user's client ask for consent; return the id of the consent request."""
        caller = self.caller(name, client)
        grant = await self.database.grants.find(caller.principal, client)
        return (await self.provisioning.ask(caller, scopes, grant=grant)).elicitation_id

    async def browser(self, name: str = "alice", /, target: str = "account", **claims: object) -> Browser:
        """Sign a user in with a browser."""
        start = await self.consent_service.begin_sign_in(target)
        params = self.issuer.sign_in(start.url, name, **claims)
        done = await self.consent_service.finish_sign_in(start.flow.get_secret_value(), params)
        return Browser(done.signed_in, done.token.get_secret_value())

    async def allow(self, consent_request: str, browser: Browser, scopes: frozenset[str] = READ) -> str:
        """Press Allow; return the URL of the confirmation."""
        url = await self.consent_service.allow(consent_request, browser.who, browser.token, scopes)
        assert url is not None
        return url

    async def connect(
        self, name: str = "alice", client: str = "claude", uid: str | None = None
    ) -> tuple[str, Browser]:
        """Complete one consent request."""
        consent_request, browser = await self.ask(name, client), await self.browser(name)
        url = await self.allow(consent_request, browser)
        done = await self.consent_service.finish_grant(
            self.provider.confirm(url, uid or name), browser.who, browser.token
        )
        if done.pending_grant is not None:
            await self.consent_service.confirm(consent_request, browser.who, browser.token, mine=True)
        self.clock.forward(1)
        return consent_request, browser

    async def begin(self, name: str = "alice", client: str = "claude") -> tuple[str, Browser]:
        """Press Allow, which starts a login flow."""
        consent_request, browser = (
            await self.ask(name, client),
            await self.browser(name, preferred_username=name),
        )
        assert await self.consent_service.allow(consent_request, browser.who, browser.token, READ) is None
        return consent_request, browser

    def granted_by(self, name: str, *, login_name: str | None = None, flow: int = -1) -> str:
        """Grant access in a login flow; return the app password."""
        state = self.sandbox.state
        made = state.new_app_password(state.users[name], login_name=login_name or name)
        state.login_flows[flow].granted = made
        return made.secret

    async def run_once(self, poller: Poller | None = None) -> None:
        """Advance the clock, and run what is due."""
        self.clock.forward(2)
        await (poller or self.poller).run_once()
        await self.outbox.run_once()

    async def flow(self, consent_request: str) -> LoginFlow | None:
        return await self.database.login_flows.find(consent_request)

    @property
    def app_passwords(self) -> set[str]:
        """The app passwords that Nextcloud accepts."""
        return set(self.sandbox.state.app_passwords)

    async def state(self, consent_request: str) -> ElicitationState:
        found = await self.database.elicitations.find(consent_request)
        assert found is not None
        return found.state

    async def grant(self, name: str = "alice", client: str = "claude") -> Grant | None:
        return await self.database.grants.find(Principal(ISSUER, name), client)

    def another_process(self) -> ConsentService:
        """Return the service of another process on the same database, with its own connections."""
        return self.make()

    def failing(self, change: str) -> AbstractContextManager[None]:
        """Let one kind of change, such as `INSERT ON audit`, fail as on a full disk."""
        return failing(self.file, change)

    def sql(self, statement: str) -> None:
        """Change the database file directly."""
        run_sql(self.file, statement)

    async def pending_grant(self, consent_request: str, browser: Browser) -> PendingGrant | None:
        return await self.consent_service.pending_grant(consent_request, browser.who, browser.token)

    async def given_back(self) -> list[str]:
        """List the access tokens that were revoked at Nextcloud, after running the outbox."""
        await self.outbox.run_once()
        return self.provider.revoked

    async def audit(self, name: str = "alice") -> list[tuple[str, str]]:
        recent = await self.database.audit.recent(Principal(ISSUER, name), 50)
        return [(entry.action, entry.result) for entry in recent]


@asynccontextmanager
async def open_consent_service(
    folder: Path,
    template: Path,
    *,
    mapping_claim: str | None = None,
    identity_claim: str = "sub",
    bound: frozenset[str] = frozenset(SCOPES),
    posts_secret: bool = False,
    follows: bool = False,
) -> AsyncGenerator[ConsentSetup]:
    """Build the fixture; everything is closed at the end. With `follows` users confirm in login flows."""
    clock = Clock()
    issuer, provider = Issuer(clock), Nextclouds(clock)
    sandbox = Sandbox.demo(clock=clock)
    network = Network(sandbox)
    keys = KeyRing.parse([SecretStr(new_key())])
    file = folder / "state.db"
    # Creating the schema takes a second, which not every test has to spend.
    shutil.copy(template, file)
    finished: list[str] = []
    changes: list[None] = []

    async def on_finished(elicitation_id: str) -> None:
        finished.append(elicitation_id)

    async with AsyncExitStack() as stack:
        database = await Database.open(file_url(file), keys=keys, clock=clock)
        stack.push_async_callback(database.aclose)
        pool = open_pool(ca_bundle=None, user_agent="test", transport=httpx2.MockTransport(issuer))
        stack.push_async_callback(pool.aclose)
        outgoing = Outgoing(pool)
        discovery = Discovery(ISSUER, outgoing, monotonic=clock.seconds)
        sign_in = SignIn(
            discovery=discovery,
            keyset=KeySet(discovery, outgoing, monotonic=clock.seconds),
            outgoing=outgoing,
            client=OAuthClient(CLIENT, SecretStr(SECRET), posts_secret=posts_secret),
            redirect_uri=SIGN_IN_CALLBACK,
            keys=keys,
            clock=clock,
            spent_codes=database.spent_codes,
            identity_claim=identity_claim,
            mapping_claim=mapping_claim,
        )
        policy = Policy(NEXTCLOUD, "nextcloud.test", bound, page_url)
        line = open_pool(ca_bundle=None, user_agent="test", transport=network)
        stack.push_async_callback(line.aclose)
        nextcloud = Nextcloud(NextcloudUrl.parse(NEXTCLOUD), line)
        app_passwords = LoginFlowProvider(nextcloud, database, clock=clock)
        provisioning = Provisioning(database, app_passwords, policy, clock=clock, on_finished=on_finished)
        outbox = Outbox(
            database, app_passwords, clock=clock, within=None, redirects={provider.name: provider}
        )

        def make() -> ConsentService:
            return ConsentService(
                database,
                provisioning,
                sign_in,
                None if follows else provider,
                outbox=outbox,
                policy=policy,
                exchange_limiter=ExchangeLimiter(database, clock=clock),
                clock=clock,
                on_changed=lambda: changes.append(None),
            )

        def new_poller() -> Poller:
            return Poller(
                database,
                app_passwords,
                provisioning,
                clock=clock,
                wake=app_passwords.next_start,
                outbox=outbox,
                within=None,
            )

        yield ConsentSetup(
            clock,
            sandbox,
            network,
            issuer,
            provider,
            database,
            provisioning,
            outbox,
            new_poller(),
            sign_in,
            make(),
            keys,
            file,
            finished,
            changes,
            make,
            new_poller,
        )
