"""An in-memory state machine behind the pages of a multi-user server, and its application."""

import re
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from secrets import token_urlsafe
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx2
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.consent.views import (
    AccountView,
    ClientIdentity,
    ClientView,
    ConsentRequest,
    GrantDone,
    RecentAction,
    SignedInClient,
    SignInDone,
    SignInStart,
)
from nextcloud_mcp_server.errors import (
    ElicitationUnknown,
    InvalidInput,
    OtherBrowser,
    OtherPerson,
    SignInRefused,
)
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.crypto import hash_of
from nextcloud_mcp_server.storage.records import (
    ElicitationState,
    OpenSignIn,
    PendingGrant,
    Principal,
    SignedIn,
    Tokens,
)
from nextcloud_mcp_server.web.authorizations import Authorizations
from nextcloud_mcp_server.web.consent_backend import Params
from nextcloud_mcp_server.web.middleware import WebConfig, guard
from nextcloud_mcp_server.web.routes import multi_user_routes
from tests.clients_fixtures import IN_ORDER
from tests.single_user_pages import broken, echo

HOST = "mcp.example.org"
ORIGIN = f"https://{HOST}"
ISSUER = "https://login.example.org"
NEXTCLOUD = "https://cloud.example.org"
NEXTCLOUD_HOST = "cloud.example.org"
MOST_REFUSALS = 3


def person(name: str, **changes: object) -> SignedIn:
    """Return a signed-in user."""
    now = datetime(2026, 6, 11, 10, 42, tzinfo=UTC)
    usual = SignedIn(Principal(ISSUER, name), name.title(), None, now, now + timedelta(minutes=15))
    return replace(usual, **changes)  # type: ignore[arg-type]


@dataclass
class MemoryConsentService:
    """Implements the rules: the owner of a consent request; states and flows used once, in one browser.

    A code is the name of any user who signed in at the identity provider, or confirmed in Nextcloud.
    """

    now: datetime = datetime(2026, 6, 11, 10, 42, tzinfo=UTC)
    issuer: str = ISSUER
    nextcloud: str = NEXTCLOUD
    consent_service: dict[str, ConsentRequest] = field(default_factory=dict[str, ConsentRequest])
    owners: dict[str, str] = field(default_factory=dict[str, str])
    refusals: dict[str, int] = field(default_factory=dict[str, int])
    flows: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    sessions: dict[str, SignedIn] = field(default_factory=dict[str, SignedIn])
    legs: dict[str, tuple[str, str, frozenset[str]]] = field(
        default_factory=dict[str, tuple[str, str, frozenset[str]]]
    )
    waiting: dict[str, tuple[str, PendingGrant]] = field(default_factory=dict[str, tuple[str, PendingGrant]])
    connected: dict[str, str] = field(default_factory=dict[str, str])
    clients: dict[tuple[str, str], ClientView] = field(default_factory=dict[tuple[str, str], ClientView])
    apps: dict[tuple[str, str], SignedInClient] = field(default_factory=dict[tuple[str, str], SignedInClient])
    calls: list[str] = field(default_factory=list[str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    maps: bool = False
    follows: bool = False
    needs_reauth: bool = False
    at_nextcloud: bool = True
    fault: Exception | None = None
    spent: list[str] = field(default_factory=list[str])
    pictures: dict[str, Picture] = field(default_factory=dict[str, Picture])

    # Set-up by tests

    def open(
        self,
        owner: str = "alice",
        *,
        client_name: str = "Claude Code",
        needed: Sequence[str] = ("notes:read",),
        offered: Sequence[str] = IN_ORDER,
        granted: Sequence[str] = (),
        client: ClientIdentity | None = ClientIdentity(host="claude.ai"),  # noqa: B008 - it cannot be changed
    ) -> str:
        elicitation_id = str(uuid4())
        self.owners[elicitation_id] = owner
        self.consent_service[elicitation_id] = ConsentRequest(
            id=elicitation_id,
            state=ElicitationState.PENDING,
            client_name=client_name,
            nextcloud_host=NEXTCLOUD_HOST,
            needed=frozenset(needed),
            offered=frozenset(offered),
            granted=frozenset(granted),
            login_url=None,
            expires_at=self.now + timedelta(minutes=10),
            client=client,
        )
        return elicitation_id

    def session(self, name: str = "alice") -> str:
        """Sign a user in, without a browser."""
        token = token_urlsafe(32)
        self.sessions[token] = self._person(name)
        return token

    def client(self, owner: str = "alice", client_id: str = "claude", **changes: object) -> None:
        """Add a client with granted scopes."""
        self.connected.setdefault(owner, owner)
        usual = ClientView(
            client_id=client_id,
            name="Claude Code",
            scopes=frozenset({"notes:read", "files:read", "notes:write"}),
            offered=frozenset(IN_ORDER),
            granted_at=self.now - timedelta(days=100),
            last_used_at=self.now - timedelta(minutes=4),
            paused=False,
            recent=(),
        )
        self.clients[owner, client_id] = replace(usual, **changes)  # type: ignore[arg-type]

    def app(self, owner: str = "alice", client_id: str = "claude", **changes: object) -> None:
        """Add a client with tokens of this server."""
        usual = SignedInClient(
            client_id=client_id,
            name="Claude Code",
            since=self.now - timedelta(days=100),
            last_used_at=self.now - timedelta(minutes=4),
        )
        self.apps[owner, client_id] = replace(usual, **changes)  # type: ignore[arg-type]

    def did(self, *actions: str, result: str = "ok") -> tuple[RecentAction, ...]:
        """Return audited actions, each an hour before the last."""
        return tuple(
            RecentAction(self.now - timedelta(hours=hours), action, result)
            for hours, action in enumerate(actions)
        )

    def granted(self, elicitation_id: str, uid: str) -> None:
        """Complete a user's login flow; with another account than the owner's it fails."""
        owner, consent_request = self.owners[elicitation_id], self.consent_service[elicitation_id]
        self._set(elicitation_id, login_url=None)
        if uid != owner:
            self._set(elicitation_id, error=f"Nextcloud answered for {uid!r}.")
            return
        self.connected[owner] = uid
        self._complete(elicitation_id, person(owner), consent_request.needed)

    def end(self, elicitation_id: str, state: ElicitationState, error: str | None = None) -> None:
        self._set(elicitation_id, state=state, error=error)

    def forget(self) -> None:
        """Reset everything."""
        for kept in (
            *(self.consent_service, self.sessions, self.connected, self.clients, self.apps),
            *(self.names, self.waiting),
        ):
            kept.clear()
        self.needs_reauth = False

    async def ready(self) -> "MemoryConsentService":
        return self

    # Interface for the pages

    @property
    def can_switch(self) -> bool:
        return True

    async def begin_sign_in(self, target: str, *, another: bool = False) -> SignInStart:
        self._call("begin_sign_in")
        # Sealed values end in such characters.
        state, flow = token_urlsafe(24), f"{token_urlsafe(48)}=="
        self.flows[flow] = (state, target)
        prompt = "&prompt=login" if another else ""
        return SignInStart(f"{self.issuer}/authorize?client_id=us&state={state}{prompt}", SecretStr(flow))

    async def finish_sign_in(self, flow: str, params: Params, *, place: str = "") -> SignInDone:
        with self._spent_unless_used(params):
            self._call("finish_sign_in")
            state, target = self.flows.get(flow, ("", ""))
            if not state or list(params.get("state", ())) != [state] or len(params.get("code", ())) != 1:
                states = {each for each, _ in self.flows.values()} - {state}
                if states & set(params.get("state", ())):
                    raise OtherBrowser("Another browser began it.")
                raise SignInRefused("The sign-in is not trusted.")
        del self.flows[flow]
        token = self.session(params["code"][0])
        self.sessions[token] = replace(self.sessions[token], place=place)
        return SignInDone(SecretStr(token), self.sessions[token], target)

    async def signed_in(self, token: str) -> SignedIn | None:
        return self.sessions.get(token)

    async def sign_ins(self, who: SignedIn) -> list[OpenSignIn]:
        return [
            OpenSignIn(hash_of(token), each.place, each.created_at, each.created_at, each.expires_at)
            for token, each in self.sessions.items()
            if each.principal == who.principal
        ]

    async def end_sign_in(self, who: SignedIn, sign_in_id: str) -> None:
        self._call("end_sign_in")
        for token, each in list(self.sessions.items()):
            if hash_of(token) == sign_in_id and each.principal == who.principal:
                del self.sessions[token]

    async def sign_out(self, token: str) -> None:
        self._call("sign_out")
        self.sessions.pop(token, None)

    async def sign_out_everywhere(self, who: SignedIn) -> None:
        self._call("sign_out_everywhere")
        self.sessions = {
            token: each for token, each in self.sessions.items() if each.principal != who.principal
        }

    async def view(self, elicitation_id: str, who: SignedIn) -> ConsentRequest:
        self.calls.append("view")
        return self._own(elicitation_id, who)

    async def allow(
        self, elicitation_id: str, who: SignedIn, token: str, scopes: frozenset[str]
    ) -> str | None:
        self._call("allow")
        self._open_one(elicitation_id, who)
        if who.principal.subject in self.connected:
            self._complete(elicitation_id, who, scopes)
            return None
        if self.follows:
            link = f"{self.nextcloud}/index.php/login/v2/flow/{token_urlsafe(24)}"
            self._set(elicitation_id, state=ElicitationState.OPENED, login_url=SecretStr(link))
            return None
        state = token_urlsafe(24)
        self.legs[state] = (elicitation_id, token, scopes)
        self._set(elicitation_id, state=ElicitationState.OPENED)
        return f"{self.nextcloud}/index.php/apps/oauth2/authorize?client_id=us&state={state}"

    async def decline(self, elicitation_id: str, who: SignedIn) -> None:
        self._call("decline")
        self._open_one(elicitation_id, who)
        self._set(elicitation_id, state=ElicitationState.DECLINED)

    async def end_foreign(self, params: Params) -> None:
        self._call("end_foreign")
        with self._spent_unless_used(params):
            (state,) = params.get("state", ("",))
            if self.legs.pop(state, None) is not None:
                raise OtherBrowser("Another browser began it.")
            raise SignInRefused("There is no such thing.")

    async def finish_grant(self, params: Params, who: SignedIn, token: str) -> GrantDone:
        states = params.get("state", ())
        grant_request = self.legs.get(states[0]) if len(states) == 1 else None
        if grant_request is not None and grant_request[1] != token:
            await self.end_foreign(params)
        with self._spent_unless_used(params):
            self._call("finish_grant")
            if grant_request is None or grant_request[1] != token or len(params.get("code", ())) != 1:
                raise SignInRefused("The answer is not trusted.")
        del self.legs[states[0]]
        elicitation_id, _, scopes = grant_request
        self._open_one(elicitation_id, who)
        uid = params["code"][0]
        if self.maps:
            self.connected[who.principal.subject] = uid
            self._complete(elicitation_id, who, scopes)
            return GrantDone(elicitation_id, None)
        pending_grant = PendingGrant(
            elicitation_id=elicitation_id,
            principal=who.principal,
            scopes=scopes,
            provider="nextcloud_oauth2",
            tokens=Tokens(SecretStr("access"), SecretStr("refresh"), None),
            uid=uid,
            display_name=self.names.get(uid, uid.title()),
            storage_id=None,
            expires_at=self.now + timedelta(minutes=10),
        )
        self.waiting[elicitation_id] = (token, pending_grant)
        return GrantDone(elicitation_id, pending_grant)

    async def spend_if_known(self, params: Params) -> None:
        state = params.get("state", [""])[0]
        if state in self.flows or state in self.legs:
            self.spent += params["code"]

    async def pending_grant(self, elicitation_id: str, who: SignedIn, token: str) -> PendingGrant | None:
        self._own(elicitation_id, who)
        owner, pending_grant = self.waiting.get(elicitation_id, ("", None))
        return pending_grant if owner == token else None

    async def picture(self, pending_grant: PendingGrant) -> Picture | None:
        return self.pictures.get(pending_grant.uid)

    async def confirm(self, elicitation_id: str, who: SignedIn, token: str, *, mine: bool) -> None:
        self._call("confirm")
        self._open_one(elicitation_id, who)
        pending_grant = await self.pending_grant(elicitation_id, who, token)
        if pending_grant is None:
            raise ElicitationUnknown("There is no such request.")
        del self.waiting[elicitation_id]
        if mine:
            self.connected[who.principal.subject] = pending_grant.uid
            self._complete(elicitation_id, who, pending_grant.scopes)

    async def account(self, who: SignedIn) -> AccountView:
        self.calls.append("account")
        subject = who.principal.subject
        uid = self.connected.get(subject)
        clients = tuple(client for (owner, _), client in self.clients.items() if owner == subject)
        apps = tuple(app for (owner, _), app in self.apps.items() if owner == subject)
        return AccountView(NEXTCLOUD_HOST, uid, who.display_name, self.needs_reauth, clients, apps)

    async def set_scopes(self, who: SignedIn, client_id: str, scopes: frozenset[str]) -> None:
        self._change("set_scopes", who, client_id, scopes=scopes)

    async def pause(self, who: SignedIn, client_id: str, *, paused: bool) -> None:
        self._change("pause", who, client_id, paused=paused)

    async def remove(self, who: SignedIn, client_id: str) -> None:
        self._change("remove", who, client_id)
        del self.clients[who.principal.subject, client_id]

    async def sign_out_client(self, who: SignedIn, client_id: str) -> None:
        self._call("sign_out_client")
        if self.apps.pop((who.principal.subject, client_id), None) is None:
            raise InvalidInput("There is no such app.")

    async def disconnect(self, who: SignedIn) -> bool:
        self._call("disconnect")
        subject = who.principal.subject
        self.connected.pop(subject, None)
        self.clients = {key: client for key, client in self.clients.items() if key[0] != subject}
        return self.at_nextcloud

    # Implementation

    @contextmanager
    def _spent_unless_used(self, params: Params) -> Generator[None]:
        try:
            yield
        except Exception:
            self.spent += params.get("code", ())
            raise

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.fault is not None:
            raise self.fault

    def _person(self, name: str) -> SignedIn:
        return person(name, display_name=self.names.get(name, name.title()))

    def _own(self, elicitation_id: str, who: SignedIn) -> ConsentRequest:
        if elicitation_id not in self.consent_service:
            raise ElicitationUnknown("There is no such request.")
        if self.owners[elicitation_id] != who.principal.subject:
            count = self.refusals[elicitation_id] = self.refusals.get(elicitation_id, 0) + 1
            if count == MOST_REFUSALS:
                self.end(elicitation_id, ElicitationState.FAILED, "Somebody else tried to answer.")
            raise OtherPerson("This request belongs to another account.")
        return self.consent_service[elicitation_id]

    def _open_one(self, elicitation_id: str, who: SignedIn) -> None:
        if self._own(elicitation_id, who).state.final:
            raise ElicitationUnknown("This request is over.")

    def _complete(self, elicitation_id: str, who: SignedIn, scopes: frozenset[str]) -> None:
        subject = who.principal.subject
        self.client(subject, scopes=scopes, granted_at=self.now, last_used_at=None)
        self._set(
            elicitation_id,
            state=ElicitationState.COMPLETE,
            account_name=self.connected[subject],
            granted=scopes,
        )

    def _change(self, name: str, who: SignedIn, client_id: str, **changes: object) -> None:
        self._call(name)
        key = (who.principal.subject, client_id)
        if key not in self.clients:
            raise InvalidInput("There is no such connection any more.")
        self.clients[key] = replace(self.clients[key], **changes)  # type: ignore[arg-type]

    def _set(self, elicitation_id: str, **changes: object) -> None:
        self.consent_service[elicitation_id] = replace(self.consent_service[elicitation_id], **changes)  # type: ignore[arg-type]


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
    consent_service: MemoryConsentService,
    settings: WebConfig | None = None,
    *,
    keys: Sequence[bytes] = (),
    authorizations: Callable[[], Awaitable[Authorizations]] | None = None,
) -> ASGIApp:
    """Build the application as the server does; with `authorizations` it is an authorization server."""
    methods = ["GET", "POST", "DELETE"]
    pages = multi_user_routes(
        consent_service.ready,
        keys=lambda: keys or [b"k" * 32],
        nextcloud_host=NEXTCLOUD_HOST,
        mcp_url=f"{ORIGIN}/mcp",
        clock=lambda: consent_service.now,
        authorizations=authorizations,
    )
    inner = Starlette(routes=[Route("/mcp", echo, methods=methods), Route("/mcp/broken", broken), *pages])
    return guard(inner, settings or config())


FORM_CHECK = re.compile(r'name="csrf" value="([^"]+)"')


def browser_of(
    consent_service: MemoryConsentService, settings: WebConfig | None = None, **headers: str
) -> httpx2.AsyncClient:
    """Return a browser: it keeps cookies, requests pages, and sends the origin of its forms."""
    usual = {"Accept": "text/html", "Accept-Language": "en", "Sec-Fetch-Site": "same-origin"}
    transport = httpx2.ASGITransport(application(consent_service, settings))
    return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=usual | headers)


def sign_in(browser: httpx2.AsyncClient, consent_service: MemoryConsentService, name: str = "alice") -> str:
    """Put a user's browser session into a browser."""
    token = consent_service.session(name)
    browser.cookies.set("__Host-session", token, domain=HOST)
    return token


def checks(response: httpx2.Response) -> list[str]:
    """List the form tokens of a page."""
    return FORM_CHECK.findall(response.text)


def url(path: str, elicitation_id: str) -> str:
    """Return the URL of a consent request's page."""
    return f"/oauth/{path}?elicitationId={elicitation_id}"


def state_of(address: str) -> str:
    """Return the state that a provider must send back."""
    return parse_qs(urlsplit(address).query)["state"][0]


async def allow(browser: httpx2.AsyncClient, elicitation_id: str, *scopes: str) -> httpx2.Response:
    """Tick scopes and press Allow."""
    page = await browser.get(url("consent", elicitation_id))
    form = {"elicitationId": elicitation_id, "csrf": checks(page)[-1], "answer": "allow"}
    return await browser.post("/oauth/consent", data={**form, "allow": list(scopes or ["notes:read"])})


async def give(browser: httpx2.AsyncClient, elicitation_id: str, uid: str) -> httpx2.Response:
    """Press Allow, confirm in Nextcloud as a user, and return."""
    await allow(browser, elicitation_id)
    redirect_target = await browser.get("/oauth/nextcloud")
    state = state_of(redirect_target.headers["refresh"])
    return await browser.get("/oauth/callback/nextcloud", params={"code": uid, "state": state})
