"""An in-memory state machine behind the pages of authorization requests."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from secrets import token_urlsafe
from urllib.parse import urlencode

import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin import redirects
from nextcloud_mcp_server.auth.builtin.authorization import Sent, Welcome
from nextcloud_mcp_server.auth.builtin.authorize_request import Asked, asked_of, back_to
from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import CLIENT_STATE, CallbackResult, SignInCancelled
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.errors import ClientUnknown, FormRefused, InvalidInput, OtherBrowser, SignInRefused
from nextcloud_mcp_server.storage.oauth_records import AuthorizationTransaction, Client, ClientRequest
from nextcloud_mcp_server.web.consent_backend import Params
from nextcloud_mcp_server.web.middleware import WebConfig
from tests.memory_consent_service import NEXTCLOUD, ORIGIN, MemoryConsentService, application, state_of

NOW = datetime(2026, 6, 11, 10, 42, tzinfo=UTC)
HOSTED = "https://claude.ai/api/mcp/auth_callback"
LOOPBACK = "http://127.0.0.1:9/callback"
CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"

_FIELD = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')


@dataclass
class MemoryAuthorizations:
    """Implements the rules: states and authorization transactions of one browser, each used once.

    A code of Nextcloud's is the name of any user who signed in there.
    """

    nextcloud: str = NEXTCLOUD
    issuer: str = ORIGIN
    clients: dict[str, Client] = field(default_factory=dict[str, Client])
    forms: dict[str, ClientRequest] = field(default_factory=dict[str, ClientRequest])
    away: dict[str, tuple[AuthorizationTransaction, str]] = field(
        default_factory=dict[str, tuple[AuthorizationTransaction, str]]
    )
    here: dict[str, tuple[AuthorizationTransaction, str, str]] = field(
        default_factory=dict[str, tuple[AuthorizationTransaction, str, str]]
    )
    connected: dict[str, str] = field(default_factory=dict[str, str])
    allowed: dict[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]]
    )
    calls: list[str] = field(default_factory=list[str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    faults: dict[str, Exception] = field(default_factory=dict[str, Exception])
    senders: list[str] = field(default_factory=list[str])

    # Set-up by tests

    def client(self, client_id: str = "mcp-claude", **changes: object) -> str:
        """Add a client, registered by itself unless its id is a URL."""
        usual = Client(
            client_id=client_id,
            kind="document" if client_id.startswith("https:") else "registered",
            name="Claude",
            redirect_uris=(HOSTED, LOOPBACK, CURSOR),
            auth_method="none",
            secret_hash=None,
            scopes=None,
            created_at=NOW,
            last_used_at=None,
            native=False,
        )
        self.clients[client_id] = replace(usual, **changes)  # type: ignore[arg-type]
        return client_id

    def forget(self) -> None:
        """Reset everything."""
        for kept in (
            *(self.clients, self.forms, self.away, self.here),
            *(self.connected, self.allowed, self.names, self.faults, self.calls),
        ):
            kept.clear()

    async def ready(self) -> "MemoryAuthorizations":
        return self

    # Interface for the pages

    async def read(self, params: Params, *, sender: str) -> Asked:
        self._call("read")
        self.senders.append(sender)
        values = {name: each[0] for name, each in params.items() if len(each) == 1}
        client = self._known(values.get("client_id", ""))
        uri = values.get("redirect_uri", client.redirect_uris[0])
        asked = frozenset(values.get("scope", "").split()) & frozenset(SCOPES)
        request = ClientRequest(
            client_id=client.client_id,
            redirect_uri=uri,
            state=values.get("state"),
            code_challenge="c" * 43,
            resource=f"{ORIGIN}/mcp",
            scopes=asked or frozenset(SCOPES),
        )
        return asked_of(client, request)

    def seal(self, asked: Asked) -> str:
        sealed = token_urlsafe(24)
        self.forms[sealed] = asked.request
        return sealed

    async def unseal(self, sealed: str) -> Asked:
        self._call("unseal")
        if sealed not in self.forms:
            raise FormRefused("The form was not made here.")
        return self.asked_for(self.forms[sealed])

    async def approve(self, asked: Asked, scopes: frozenset[str], *, browser: str) -> str:
        self._call("approve")
        if not scopes & asked.request.scopes:
            raise InvalidInput("Nothing was ticked.")
        state = f"{CLIENT_STATE}{token_urlsafe(24)}"
        auth_transaction = AuthorizationTransaction(
            token_urlsafe(24), "client", asked.request, scopes, NOW + timedelta(minutes=10)
        )
        self.away[state] = (auth_transaction, browser)
        return f"{self.nextcloud}/index.php/apps/oauth2/authorize?{urlencode({'client_id': 'us', 'state': state})}"

    def denied(self, asked: Asked) -> str:
        return back_to(asked.request, self.issuer, {"error": "access_denied"})

    async def asked_by(self, callback: CallbackResult) -> Asked:
        return await self.asked(callback.auth_transaction)

    async def asked(self, auth_transaction: AuthorizationTransaction) -> Asked:
        assert auth_transaction.request is not None
        return self.asked_for(auth_transaction.request)

    async def returned(self, params: Params, *, browser: str) -> CallbackResult:
        self._call("returned")
        states = params.get("state", ())
        auth_transaction, whose = self.away.get(states[0], (None, "")) if len(states) == 1 else (None, "")
        if auth_transaction is None:
            raise SignInRefused("This cannot be finished here.")
        del self.away[states[0]]
        if whose != browser:
            raise OtherBrowser("Another browser began it.")
        if "code" not in params:
            raise SignInCancelled(auth_transaction)
        return CallbackResult(auth_transaction, SecretStr(params["code"][0]))

    async def come_back(self, callback: CallbackResult, *, browser: str) -> str:
        self._call("come_back")
        self.here[callback.auth_transaction.id] = (
            callback.auth_transaction,
            browser,
            callback.code.get_secret_value(),
        )
        return callback.auth_transaction.id

    async def completed(self, auth_transaction_id: str, *, browser: str) -> Welcome:
        self._call("arrived")
        auth_transaction, uid = self._find(auth_transaction_id, browser)
        asked = await self.asked(auth_transaction)
        return Welcome(
            asked=asked,
            uid=uid,
            display_name=self.names.get(uid, uid.title()),
            scopes=auth_transaction.scopes,
            before=self.allowed.get((uid, asked.client.client_id), frozenset()),
            connected=auth_transaction_id in self.connected,
        )

    async def go_on(self, auth_transaction_id: str, *, browser: str) -> Sent:
        self._call("go_on")
        auth_transaction, uid = self._find(auth_transaction_id, browser)
        asked = await self.asked(auth_transaction)
        self.connected[auth_transaction_id] = uid
        # The same at each run: it is in a screenshot of the documentation.
        digest = sha256(f"{uid} {self.calls.count('go_on')}".encode()).digest()
        code = f"code-{urlsafe_b64encode(digest[:24]).decode()}"
        url = back_to(asked.request, self.issuer, {"code": code})
        return Sent(asked, url, SecretStr(code))

    async def not_me(self, auth_transaction_id: str, *, browser: str) -> Asked:
        self._call("not_me")
        auth_transaction, _ = self._find(auth_transaction_id, browser)
        if auth_transaction_id in self.connected:
            raise SignInRefused("This cannot be finished here.")
        del self.here[auth_transaction_id]
        return await self.asked(auth_transaction)

    # Implementation

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.faults:
            raise self.faults[name]

    def _known(self, client_id: str) -> Client:
        if client_id not in self.clients:
            raise ClientUnknown("This server does not know the app.")
        return self.clients[client_id]

    def asked_for(self, request: ClientRequest) -> Asked:
        client = self._known(request.client_id)
        assert redirects.any_matches(client.redirect_uris, request.redirect_uri)
        return asked_of(client, request)

    def _find(self, auth_transaction_id: str, browser: str) -> tuple[AuthorizationTransaction, str]:
        auth_transaction, whose, uid = self.here.get(auth_transaction_id, (None, "", ""))
        if auth_transaction is None or whose != browser:
            raise SignInRefused("This cannot be finished here.")
        return auth_transaction, uid


def ask_url(client_id: str = "mcp-claude", **fields: str) -> str:
    """Return the URL of a client's authorization request."""
    usual = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": HOSTED,
        "state": "of the client",
    }
    return f"/authorize?{urlencode({**usual, **fields})}"


def fields_of(page: httpx2.Response) -> dict[str, str]:
    """Read the hidden fields of a page's form."""
    return dict(_FIELD.findall(page.text))


def target_of(answer: httpx2.Response) -> str:
    """Return the target of a page's automatic redirect."""
    return answer.headers["refresh"].partition("url=")[2]


def client_browser(
    authorizations: MemoryAuthorizations, settings: WebConfig | None = None, **headers: str
) -> httpx2.AsyncClient:
    """Return a browser for the pages: it keeps cookies and sends the origin of its forms."""
    usual = {"Accept": "text/html", "Accept-Language": "en", "Sec-Fetch-Site": "same-origin"}
    app = application(MemoryConsentService(), settings, authorizations=authorizations.ready)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=ORIGIN, headers=usual | headers)


async def answer(
    browser: httpx2.AsyncClient, what: str = "allow", *scopes: str, address: str = "", **changes: str
) -> httpx2.Response:
    """Open an authorization request, tick scopes, and press a button."""
    page = await browser.get(address or ask_url())
    form: Mapping[str, object] = {**fields_of(page), "answer": what, "allow": list(scopes), **changes}
    return await browser.post("/authorize", data=form)


async def come_back(
    browser: httpx2.AsyncClient, name: str = "bob", *scopes: str, address: str = ""
) -> httpx2.Response:
    """Press Allow, sign in to Nextcloud as a user, and return."""
    redirect_target = await answer(browser, "allow", *(scopes or ["notes:read"]), address=address)
    query = {"code": name, "state": state_of(target_of(redirect_target))}
    return await browser.get("/oauth/callback/nextcloud", params=query)


async def confirm(
    browser: httpx2.AsyncClient, what: str = "mine", name: str = "bob", *scopes: str, address: str = ""
) -> httpx2.Response:
    """Complete the request, and answer whether the account is the right one."""
    back = await come_back(browser, name, *scopes, address=address)
    page = await browser.get(back.headers["location"])
    return await browser.post("/authorize/confirm", data={**fields_of(page), "answer": what})
