"""The pages of a multi-user server on the real consent engine, with a fake identity provider and the sandbox."""

import re
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.builtin.authorization import Authorization
from nextcloud_mcp_server.auth.builtin.client_logos import ClientLogos
from nextcloud_mcp_server.auth.builtin.tokens import Tokens
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.login_flow import LoginFlowProvider, Poller
from nextcloud_mcp_server.auth.consent.nextcloud_oauth2 import NextcloudOAuth2
from nextcloud_mcp_server.auth.consent.oidc_sign_in import SignIn
from nextcloud_mcp_server.auth.consent.policy import LIFETIME, Policy
from nextcloud_mcp_server.auth.consent.provisioning import Provisioning
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.auth.consent.sign_in_flow import SignInFlow
from nextcloud_mcp_server.auth.discovery import Discovery
from nextcloud_mcp_server.auth.jwks import KeySet
from nextcloud_mcp_server.auth.oauth_client import OAuthClient
from nextcloud_mcp_server.auth.outbox import Outbox
from nextcloud_mcp_server.auth.outgoing import Outgoing
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.state import User
from nextcloud_mcp_server.storage.crypto import KeyRing, hash_of, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    ElicitationState,
    Permission,
    Principal,
    SignedIn,
)
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from nextcloud_mcp_server.web.routes import multi_user_routes
from tests.access_fields import fields_for
from tests.auth_fixtures import Clock, Network, page_url, small_sandbox
from tests.clients_fixtures import IN_ORDER
from tests.consent_fixtures import GRANT_CALLBACK, SIGN_IN_CALLBACK, run_sql
from tests.issuer_fake import CLIENT, ISSUER, SECRET, Issuer, Params
from tests.single_user_pages import Statements, broken, echo, empty, heard
from tests.tokens_fixtures import VERIFIER, code_grant

HOST = "mcp.example.org"
ORIGIN = f"https://{HOST}"
NEXTCLOUD = "https://cloud.example.org"
NEXTCLOUD_HOST = "cloud.example.org"
START = datetime(2026, 6, 11, 10, 42, tzinfo=UTC)
USUAL_HEADERS = {"Accept": "text/html", "Accept-Language": "en", "Sec-Fetch-Site": "same-origin"}
PICTURE = b"\x89PNG\r\n\x1a\n"
_SAFE_CLIENT = "https://claude.ai/oauth/client.json"
Fault = Callable[[httpx2.Request], Exception | httpx2.Response | None]


@dataclass(frozen=True)
class Connected:
    """The permission of one client."""

    scopes: frozenset[str]
    paused: bool


@dataclass
class MultiUserPages:
    """Users with accounts and browsers, and the consent service behind their pages.

    With `maps` the identity provider names each user's account; with `follows` it does so, and users confirm in
    login flows. Either may be changed while the server runs. `people` is the issuer of the users' ids.
    """

    clock: Clock
    issuer: Issuer
    sandbox: Sandbox
    network: Network
    database: Database
    keys: KeyRing
    outbox: Outbox
    provider: NextcloudOAuth2
    app_passwords: LoginFlowProvider
    tokens: Tokens
    statements: Statements
    file: Path
    nextcloud: str
    new_sign_in: Callable[[str | None], SignIn]
    authorization_endpoint: dict[str, str]
    people: str = ISSUER
    maps: bool = False
    follows: bool = False
    names: dict[str, str] = field(default_factory=dict[str, str])
    bound: frozenset[str] = frozenset(IN_ORDER)
    ids: list[str] = field(default_factory=list[str])
    _sign_ins: dict[str | None, SignIn] = field(default_factory=dict[str | None, SignIn])

    @property
    def _policy(self) -> Policy:
        return Policy(self.nextcloud, NEXTCLOUD_HOST, self.bound, page_url)

    @property
    def _provisioning(self) -> Provisioning:
        return Provisioning(
            self.database, self.app_passwords, self._policy, clock=self.clock, on_finished=_nobody_waits
        )

    async def ready(self) -> ConsentService:
        claim = "preferred_username" if self.maps or self.follows else None
        if claim not in self._sign_ins:
            self._sign_ins[claim] = self.new_sign_in(claim)
        return self.consent_service(self._sign_ins[claim], None if self.follows else self.provider)

    def consent_service(
        self,
        sign_in: SignInFlow[Any],
        provider: NextcloudOAuth2 | None,
        *,
        logos: ClientLogos | None = None,
    ) -> ConsentService:
        """Build the service for users who sign in this way."""
        return ConsentService(
            self.database,
            self._provisioning,
            sign_in,
            provider,
            outbox=self.outbox,
            policy=self._policy,
            exchange_limiter=ExchangeLimiter(self.database, clock=self.clock),
            clock=self.clock,
            on_changed=lambda: None,
            tokens=self.tokens,
            logos=logos,
        )

    def application(self, settings: WebConfig | None = None) -> ASGIApp:
        """Build the application as the server does."""
        return application(self.ready, settings, clock=self.clock)

    # Users and what they have

    def person(self, name: str) -> SignedIn:
        """Return a user who is signed in here."""
        now, uid = self.clock(), name if self.maps or self.follows else None
        shown = self.names.get(name, name.title())
        return SignedIn(self._principal(name), shown, uid, now, now + timedelta(minutes=15))

    def _principal(self, name: str) -> Principal:
        return Principal(self.people, name)

    def map_accounts(self) -> None:
        """Let the identity provider name each user's account from now on."""
        self.maps = True

    def call(self, name: str, shown: str) -> None:
        """Give a user a display name, at the identity provider and in Nextcloud."""
        self.names[name] = shown
        self._user(name).display_name = shown

    def _user(self, uid: str) -> User:
        known = self.sandbox.state.users.get(uid)
        return known or self.sandbox.add_user(uid, display_name=self.names.get(uid, uid.title()))

    async def session(self, name: str = "alice", *, place: str = "") -> str:
        """Sign a user in, without a browser; return the value for the cookie."""
        token = token_urlsafe(32)
        with self.statements.unheard():
            await self.database.sign_ins.create(token, replace(self.person(name), place=place))
        return token

    async def open(
        self,
        owner: str = "alice",
        *,
        client_name: str = "Claude Code",
        needed: Sequence[str] = ("notes:read",),
        offered: Sequence[str] = IN_ORDER,
        granted: Sequence[str] = (),
        client_id: str = "",
    ) -> str:
        """Let a user's client ask for consent; return the id of the consent request.

        Each comes from another client: the requests of one client are one request. What was `granted` before
        belongs to a credential that Nextcloud does not accept any more.
        """
        self.bound = frozenset(offered)
        asking = client_id or f"{_SAFE_CLIENT}?{len(self.ids)}"
        if granted:
            await self.client(owner, asking, scopes=frozenset(granted), name=client_name)
            await self.refuse_credential(owner)
        with self.statements.unheard():
            elicitation, _ = await self.database.elicitations.open(
                principal=self._principal(owner),
                client_id=asking,
                client_name=client_name,
                kind="page",
                scopes=frozenset(needed),
                ttl=LIFETIME,
                new_url=page_url,
            )
        self.ids.append(elicitation.id)
        return elicitation.id

    async def ask_more(self, elicitation_id: str, *scopes: str) -> None:
        """Let a second call of the same client need more scopes."""
        with self.statements.unheard():
            found = await self.database.elicitations.find(elicitation_id)
            assert found is not None
            await self.database.elicitations.open(
                principal=found.principal,
                client_id=found.client_id,
                client_name=found.client_name,
                kind=found.kind,
                scopes=frozenset(scopes),
                ttl=LIFETIME,
                new_url=page_url,
            )

    async def client(
        self,
        owner: str = "alice",
        client_id: str = "claude",
        *,
        name: str = "Claude Code",
        scopes: frozenset[str] = frozenset({"notes:read", "files:read", "notes:write"}),
        granted_at: datetime | None = None,
        last_used_at: datetime | None = START - timedelta(minutes=4),
        paused: bool = False,
        recent: Sequence[AuditEntry] = (),
        uid: str = "",
    ) -> None:
        """Connect a user's client, with what it did; the user's account is `uid`, or named like the user."""
        who, at = self._principal(owner), granted_at or self.clock() - timedelta(days=100)
        uid = uid or self.connected.get(owner, owner)
        secret = self._app_password(owner)
        now, hidden = self.clock(), SecretStr(secret)
        with self.statements.unheard():
            request, _ = await self.database.elicitations.open(
                principal=who,
                client_id=client_id,
                client_name=name,
                kind="other",
                scopes=scopes,
                ttl=LIFETIME,
                new_url=page_url,
            )
            await self.database.grants.complete(
                elicitation=request,
                flow=None,
                account=Account(f"account-{owner}", who, self.nextcloud, uid, uid.title(), None, now),
                credential=Credential(
                    f"credential-{owner}", f"account-{owner}", "login_flow", uid, hidden, False, 1, now
                ),
                permission=Permission(who, client_id, name, scopes, at),
                audit=AuditEntry(at, who, client_id, "consent", "granted"),
            )
            if last_used_at is not None:
                await self.database.grants.touch(who, client_id, last_used_at)
            if paused:
                await self.database.grants.set_paused(who, client_id, paused=True)
            entries = [replace(one, principal=who, client_id=client_id) for one in reversed(recent)]
            await self.database.audit.append(entries)

    def _app_password(self, owner: str) -> str:
        return self.sandbox.state.new_app_password(self._user(owner)).secret

    async def refuse_credential(self, owner: str = "alice") -> None:
        """Let a user's credential be one that Nextcloud does not accept any more."""
        with self.statements.unheard():
            await self.database.grants.mark_needs_reauth(f"credential-{owner}", version=1)

    async def app(
        self,
        owner: str = "alice",
        client_id: str = "claude",
        *,
        name: str = "Claude Code",
        last_used_at: datetime = START - timedelta(minutes=4),
    ) -> None:
        """Give a user's client tokens of this server; it is connected, too."""
        if (owner, client_id) not in self.clients:
            await self.client(owner, client_id, name=name)
        now, who = self.clock(), self._principal(owner)
        with self.statements.unheard():
            self.clock.moment = last_used_at
            grant = code_grant(who, client_id=client_id)
            code = (await self.tokens.new_code(grant)).get_secret_value()
            await self.tokens.exchange_code(
                code,
                client_id=client_id,
                redirect_uri=grant.redirect_uri,
                verifier=VERIFIER,
                resource=grant.resource,
            )
            self.clock.moment = now

    def did(self, *actions: str, result: str = "ok") -> tuple[AuditEntry, ...]:
        """Return audited actions, each an hour before the last."""
        nobody = Principal(ISSUER, "")
        return tuple(
            AuditEntry(self.clock() - timedelta(hours=hours), nobody, "", action, result)
            for hours, action in enumerate(actions)
        )

    async def end(self, elicitation_id: str, state: ElicitationState, failure: Failure | None = None) -> None:
        """Store how a consent request ended, with any text."""
        with self.statements.unheard():
            await self.database.elicitations.finish(elicitation_id, state, failure=failure)

    async def disconnect(self, owner: str = "alice") -> None:
        """End a user's connection; their account may be another one afterwards."""
        with self.statements.unheard():
            who = self._principal(owner)
            audit = AuditEntry(self.clock(), who, "", "disconnect", "done")
            await self.database.grants.disconnect(who, audit=audit)

    def forget(self) -> None:
        """Reset everything, so that the next test begins with an empty database and no cached answers."""
        empty(self.file)
        for name in list(self.names):
            self.call(name, name.title())
        self.statements.reset()
        for kept in (self.ids, self.names, self.issuer.asked, self.network.asked):
            kept.clear()
        state = self.sandbox.state
        state.login_flows.clear()
        state.app_passwords.clear()
        for throttle in (self.sandbox.throttle, self.sandbox.token_throttle):
            throttle.reset("127.0.0.1")
        self.maps = self.follows = False
        self.bound, self.clock.moment = frozenset(IN_ORDER), START
        self.issuer.metadata.clear()
        self.issuer.metadata |= self.authorization_endpoint
        self._sign_ins.clear()
        self.break_nextcloud(lambda _: None)
        self.break_issuer(lambda _: None)

    # What happens elsewhere

    def code(self, uid: str) -> str:
        """Confirm in Nextcloud as a user; return the code that the browser brings back."""
        (client,) = self.sandbox.state.oauth_clients
        return self.sandbox.state.new_oauth_grant(self._user(uid), client, login_name=uid).code

    def confirmed_at(self, url: str, uid: str) -> Params:
        """Confirm at Nextcloud's page as a user; return the query of the callback."""
        return {"state": [state_of(url)], "code": [self.code(uid)]}

    def signed_in_at(self, url: str, name: str) -> Params:
        """Sign in at the identity provider as a user; return the query of the callback."""
        return self.issuer.sign_in(
            url, name, name=self.names.get(name, name.title()), preferred_username=name
        )

    async def granted(self, elicitation_id: str, uid: str) -> None:
        """Confirm in a login flow as a user."""
        with self.statements.unheard():
            flow = await self.database.login_flows.find(elicitation_id)
            assert flow is not None
            token = flow.login_url.get_secret_value().rpartition("/")[2]
            (started,) = [one for one in self.sandbox.state.login_flows if one.login_token == token]
            started.granted = self.sandbox.state.new_app_password(self._user(uid), login_name=uid)
            self.clock.forward(2)
            poller = Poller(
                self.database,
                self.app_passwords,
                self._provisioning,
                clock=self.clock,
                wake=self.app_passwords.next_start,
                outbox=self.outbox,
                within=None,
            )
            await poller.run_once()

    def break_nextcloud(self, fault: Fault) -> None:
        """Let requests to Nextcloud fail, or get another response."""

        async def instead(request: httpx2.Request) -> httpx2.Response | None:
            return _raised(fault(request))

        self.network.before = instead

    def break_issuer(self, fault: Fault) -> None:
        """Let requests to the identity provider fail, or get another response."""
        self.issuer.instead = lambda request: _raised(fault(request))

    def give_picture(self) -> None:
        """Let every user have chosen a picture."""
        picture = httpx2.Response(
            200, content=PICTURE, headers={"Content-Type": "image/png", "X-NC-IsCustomAvatar": "1"}
        )
        self.break_nextcloud(lambda request: picture if "/avatar/" in request.url.path else None)

    # What is stored

    async def state(self, elicitation_id: str) -> ElicitationState:
        with self.statements.unheard():
            found = await self.database.elicitations.find(elicitation_id)
        assert found is not None
        return found.state

    async def login_url(self, elicitation_id: str) -> str | None:
        """Return the URL of the login flow of a consent request; None without one."""
        with self.statements.unheard():
            flow = await self.database.login_flows.find(elicitation_id)
        return None if flow is None else flow.login_url.get_secret_value()

    @property
    def connected(self) -> dict[str, str]:
        """The account of each connected user."""
        query = "SELECT a.subject, a.uid FROM accounts a JOIN credentials c ON c.account_id = a.id"
        return {str(subject): str(uid) for subject, uid in run_sql(self.file, query)}

    @property
    def clients(self) -> dict[tuple[str, str], Connected]:
        """What each client of each user may do."""
        rows = run_sql(self.file, "SELECT subject, client_id, scopes, paused FROM permissions")
        return {
            (str(subject), str(client_id)): Connected(frozenset(str(scopes).split()), bool(paused))
            for subject, client_id, scopes, paused in rows
        }

    @property
    def apps(self) -> set[tuple[str, str]]:
        """The clients that hold tokens of this server, with their users."""
        rows = run_sql(self.file, "SELECT subject, client_id FROM token_families")
        return {(str(subject), str(client_id)) for subject, client_id in rows}

    @property
    def sessions(self) -> set[str]:
        """The hashes of the cookies' values of all browser sessions."""
        return {str(one) for (one,) in run_sql(self.file, "SELECT token_hash FROM sign_ins")}

    @property
    def asked(self) -> list[frozenset[str]]:
        """The scopes of each grant request that waits for its callback."""
        return [
            frozenset(str(one).split()) for (one,) in run_sql(self.file, "SELECT scopes FROM grant_requests")
        ]

    @property
    def pending_grants(self) -> int:
        """How many grants wait for their users' confirmation."""
        return len(run_sql(self.file, "SELECT id FROM pending_grants WHERE NOT discard"))

    @property
    def audit(self) -> list[tuple[str, str]]:
        """The action and result of each audit entry."""
        rows = run_sql(self.file, "SELECT action, result FROM audit ORDER BY number")
        return [(str(action), str(result)) for action, result in rows]

    @property
    def requests(self) -> list[tuple[str, str]]:
        """The id's hash and the state of each consent request."""
        rows = run_sql(self.file, "SELECT id_hash, state FROM elicitations ORDER BY id_hash")
        return [(str(id_hash), str(state)) for id_hash, state in rows]

    def is_spent(self, code: str) -> bool:
        """Tell whether a code is never exchanged any more."""
        return (hash_of(code),) in run_sql(self.file, "SELECT code_hash FROM spent_codes")


def fails_with(error: Exception) -> Fault:
    """Return a fault that is the same for each request."""

    def fail(_: httpx2.Request) -> Exception:
        return error

    return fail


def _raised(fault: Exception | httpx2.Response | None) -> httpx2.Response | None:
    if isinstance(fault, Exception):
        raise fault
    return fault


async def _nobody_waits(elicitation_id: str) -> None:
    """Do nothing: no call is held here."""


@asynccontextmanager
async def open_multi_user_pages(
    folder: Path, template: Path, *, nextcloud: str = NEXTCLOUD, issuer: str = ""
) -> AsyncGenerator[MultiUserPages]:
    """Build the fixture; everything is closed at the end.

    Browsers find Nextcloud at `nextcloud`, and the page of the identity provider at `issuer`.
    """
    clock, keys, file = Clock(START), KeyRing.parse([SecretStr(new_key())]), folder / "state.db"
    endpoint = {"authorization_endpoint": f"{issuer}/authorize"} if issuer else dict[str, str]()
    fake = Issuer(clock, metadata={**endpoint})
    sandbox = small_sandbox(clock)
    network = Network(sandbox)
    shutil.copy(template, file)
    async with AsyncExitStack() as stack:
        statements = stack.enter_context(heard())
        database = await Database.open(file_url(file), keys=keys, clock=clock)
        stack.push_async_callback(database.aclose)
        pool = open_pool(ca_bundle=None, user_agent="test", transport=httpx2.MockTransport(fake))
        stack.push_async_callback(pool.aclose)
        line = open_pool(ca_bundle=None, user_agent="test", transport=network)
        stack.push_async_callback(line.aclose)
        at_nextcloud = Nextcloud(NextcloudUrl.parse(nextcloud), line)
        client = sandbox.state.new_oauth_client("Assistants", GRANT_CALLBACK)
        provider = NextcloudOAuth2(
            at_nextcloud,
            client_id=client.client_id,
            client_secret=SecretStr(client.client_secret),
            redirect_uri=GRANT_CALLBACK,
            clock=clock,
        )
        app_passwords = LoginFlowProvider(at_nextcloud, database, clock=clock)
        outgoing = Outgoing(pool)

        def new_sign_in(mapping_claim: str | None) -> SignIn:
            discovery = Discovery(ISSUER, outgoing, monotonic=clock.seconds)
            return SignIn(
                discovery=discovery,
                keyset=KeySet(discovery, outgoing, monotonic=clock.seconds),
                outgoing=outgoing,
                client=OAuthClient(CLIENT, SecretStr(SECRET)),
                redirect_uri=SIGN_IN_CALLBACK,
                keys=keys,
                clock=clock,
                spent_codes=database.spent_codes,
                mapping_claim=mapping_claim,
            )

        statements.seen.clear()
        yield MultiUserPages(
            clock=clock,
            issuer=fake,
            sandbox=sandbox,
            network=network,
            database=database,
            keys=keys,
            outbox=Outbox(
                database, app_passwords, clock=clock, within=None, redirects={provider.name: provider}
            ),
            provider=provider,
            app_passwords=app_passwords,
            tokens=Tokens(database, issuer=ORIGIN, resource=f"{ORIGIN}/mcp", keys=keys, clock=clock),
            statements=statements,
            file=file,
            nextcloud=nextcloud,
            new_sign_in=new_sign_in,
            authorization_endpoint=endpoint,
        )


def config(**changes: object) -> WebConfig:
    """Multi-user mode behind https."""
    usual = WebConfig(
        allowed_hosts=frozenset({HOST}),
        allowed_origins=frozenset({ORIGIN}),
        bearer_secret=None,
        secure_cookies=True,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def application(
    consent_service: Callable[[], Awaitable[ConsentService]],
    settings: WebConfig | None = None,
    *,
    clock: Callable[[], datetime],
    keys: Sequence[bytes] = (),
    authorizations: Callable[[], Awaitable[Authorization]] | None = None,
) -> ASGIApp:
    """Build the application as the server does; with `authorizations` it is an authorization server."""
    methods = ["GET", "POST", "DELETE"]
    pages = multi_user_routes(
        consent_service,
        keys=lambda: keys or [b"k" * 32],
        nextcloud_host=NEXTCLOUD_HOST,
        mcp_url=f"{ORIGIN}/mcp",
        clock=clock,
        authorizations=authorizations,
    )
    inner = Starlette(routes=[Route("/mcp", echo, methods=methods), Route("/mcp/broken", broken), *pages])
    return guard(inner, settings or config())


FORM_CHECK = re.compile(r'name="csrf" value="([^"]+)"')


def browser_of(
    consent_service: MultiUserPages, settings: WebConfig | None = None, **headers: str
) -> httpx2.AsyncClient:
    """Return a browser: it keeps cookies, requests pages, and sends the origin of its forms."""
    transport = httpx2.ASGITransport(consent_service.application(settings))
    return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=USUAL_HEADERS | headers)


async def sign_in(browser: httpx2.AsyncClient, consent_service: MultiUserPages, name: str = "alice") -> str:
    """Put a user's browser session into a browser."""
    token = await consent_service.session(name)
    browser.cookies.set("__Host-session", token, domain=HOST)
    return token


def checks(response: httpx2.Response) -> list[str]:
    """List the form tokens of a page."""
    return FORM_CHECK.findall(response.text)


def url(path: str, elicitation_id: str) -> str:
    """Return the URL of a consent request's page."""
    return f"/oauth/{path}?elicitationId={elicitation_id}"


def target_of(answer: httpx2.Response) -> str:
    """Return the target of a page's automatic redirect."""
    return answer.headers["refresh"].partition("url=")[2]


def state_of(address: str) -> str:
    """Return the state that a provider must send back."""
    return parse_qs(urlsplit(address).query)["state"][0]


async def gone_to_sign_in(browser: httpx2.AsyncClient, elicitation_id: str) -> str:
    """Press Continue; return the URL at which the user signs in."""
    await browser.post(url("provision", elicitation_id))
    return target_of(await browser.get("/oauth/sign-in"))


async def allow(browser: httpx2.AsyncClient, elicitation_id: str, *scopes: str) -> httpx2.Response:
    """Tick scopes and press Allow."""
    page = await browser.get(url("consent", elicitation_id))
    form = {"elicitationId": elicitation_id, "csrf": checks(page)[-1], "answer": "allow"}
    return await browser.post("/oauth/consent", data={**form, **fields_for(*(scopes or ["notes:read"]))})


async def gone_to_nextcloud(browser: httpx2.AsyncClient, elicitation_id: str) -> str:
    """Press Allow; return the state with which Nextcloud was asked."""
    await allow(browser, elicitation_id)
    return state_of((await browser.get("/oauth/nextcloud")).headers["refresh"])


async def give(
    browser: httpx2.AsyncClient, consent_service: MultiUserPages, elicitation_id: str, uid: str
) -> httpx2.Response:
    """Press Allow, confirm in Nextcloud as a user, and return."""
    params = {"state": await gone_to_nextcloud(browser, elicitation_id), "code": consent_service.code(uid)}
    return await browser.get("/oauth/callback/nextcloud", params=params)
