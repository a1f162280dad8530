"""The pages of authorization requests on the real authorization server, with the sandbox as its Nextcloud."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlencode

import httpx2
from starlette.types import ASGIApp

from nextcloud_mcp_server.auth.builtin.authorization import Authorization
from nextcloud_mcp_server.auth.builtin.authorize_request import Requests
from nextcloud_mcp_server.auth.builtin.client_fields import ClientRules
from nextcloud_mcp_server.auth.builtin.client_logos import ClientLogos
from nextcloud_mcp_server.auth.builtin.clients import Clients
from nextcloud_mcp_server.auth.builtin.documents import ClientDocuments
from nextcloud_mcp_server.auth.builtin.nextcloud_sign_in import NextcloudSignIn
from nextcloud_mcp_server.auth.builtin.page_sign_in import PageSignIn
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.auth.scopes import SCOPES
from nextcloud_mcp_server.storage.oauth_records import Client
from nextcloud_mcp_server.web.middleware import WebConfig
from tests.access_fields import fields_for
from tests.clients_fixtures import Internet, Said
from tests.cloud_fixtures import app_logo
from tests.consent_fixtures import run_sql
from tests.multi_user_pages import (
    NEXTCLOUD,
    ORIGIN,
    START,
    USUAL_HEADERS,
    MultiUserPages,
    application,
    open_multi_user_pages,
    state_of,
    target_of,
)
from tests.tokens_fixtures import VERIFIER, challenge_of

HOSTED = "https://claude.ai/api/mcp/auth_callback"
LOOPBACK = "http://127.0.0.1:9/callback"
CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"
#: A place that a client with a document names, besides its own host.
ELSEWHERE = "https://elsewhere.example/cb"

LOGO = "https://cdn.example.net/logo.png"

_FIELD = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')


def client_of(client_id: str = "mcp-claude", **changes: object) -> Client:
    """Return a client, registered by itself unless its id is a URL."""
    usual = Client(
        client_id=client_id,
        kind="document" if client_id.startswith("https:") else "registered",
        name="Claude",
        redirect_uris=(HOSTED, LOOPBACK, CURSOR, ELSEWHERE),
        auth_method="none",
        secret_hash=None,
        scopes=None,
        created_at=START,
        last_used_at=None,
        native=False,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


@dataclass
class AuthorizationPages:
    """Clients and their authorization requests; `pages` are the users, their accounts and the other pages.

    `groups` are those whose members may sign in, all users if it is empty.
    """

    pages: MultiUserPages
    groups: frozenset[str] = frozenset()
    internet: Internet = field(default_factory=Internet)
    _sign_in: NextcloudSignIn = field(init=False)
    _documents: ClientDocuments = field(init=False)
    _logos: ClientLogos = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin with nothing cached, as a new process does."""
        pages = self.pages
        self._sign_in = NextcloudSignIn(
            pages.database,
            pages.provider,
            outbox=pages.outbox,
            exchange_limiter=ExchangeLimiter(pages.database, clock=pages.clock),
            issuer=ORIGIN,
            nextcloud_url=pages.nextcloud,
            groups=self.groups,
            clock=pages.clock,
        )
        self._documents = ClientDocuments(
            pages.database.clients,
            ClientRules(scopes=frozenset(SCOPES)),
            self.internet.open(),
            clock=pages.clock,
        )
        self._logos = ClientLogos(pages.database.clients, self.internet.open(), seconds=60.0)

    async def ready(self) -> Authorization:
        pages = self.pages
        return Authorization(
            pages.database,
            Requests(
                Clients(pages.database.clients, clock=pages.clock),
                self._documents,
                issuer=ORIGIN,
                resource=f"{ORIGIN}/mcp",
                bound=frozenset(SCOPES),
            ),
            self._sign_in,
            pages.tokens,
            outbox=pages.outbox,
            keys=pages.keys,
            issuer=ORIGIN,
            nextcloud_url=pages.nextcloud,
            clock=pages.clock,
            on_changed=lambda: None,
            logos=self._logos,
        )

    async def consent_service(self) -> ConsentService:
        sign_in = PageSignIn(self.pages.database, self._sign_in)
        return self.pages.consent_service(sign_in, self.pages.provider, logos=self._logos)

    def application(self, settings: WebConfig | None = None) -> ASGIApp:
        """Build the application as the server does."""
        return application(self.consent_service, settings, clock=self.pages.clock, authorizations=self.ready)

    # Set-up by tests

    async def client(self, client_id: str = "mcp-claude", **changes: object) -> str:
        """Add a client. The document of one whose id is a URL was read before, and cannot be read now."""
        with self.pages.statements.unheard():
            await self.pages.database.clients.save(client_of(client_id, **changes))
        if client_id.startswith("https:"):
            self.internet.answers[client_id] = httpx2.ConnectError("refused")
        self.restart()
        return client_id

    async def client_with_logo(self, client_id: str, **changes: object) -> str:
        """Add a client that names a logo, which can be fetched."""
        self.internet.answers[LOGO] = Said(content=app_logo(), headers={"Content-Type": "image/png"})
        return await self.client(client_id, logo=LOGO, **changes)

    def admit_only(self, *groups: str) -> None:
        """Let only members of these groups sign in."""
        self.groups = frozenset(groups)
        self.restart()

    def break_document(self, client_id: str, fault: Exception) -> None:
        """Let the document of a client fail to be read."""
        self.internet.answers[client_id] = fault

    def fail_at(self, statement: str, fault: Exception) -> None:
        """Raise in place of running a statement that contains this text."""
        self.pages.statements.fault, self.pages.statements.fault_at = fault, statement

    def mend(self) -> None:
        """End all faults."""
        self.pages.statements.fault = None
        self.pages.break_nextcloud(lambda _: None)
        self.groups = frozenset()
        self.restart()

    def forget(self) -> None:
        """Reset everything, so that the next test begins with an empty database."""
        self.pages.forget()
        self.internet.answers.clear()
        self.mend()

    # What is stored

    @property
    def away(self) -> int:
        """How many browsers are at Nextcloud, for a client."""
        query = "SELECT id_hash FROM authorization_transactions WHERE state_hash IS NOT NULL"
        return len(run_sql(self.pages.file, query))

    @property
    def here(self) -> int:
        """How many users signed in, and have not confirmed their account yet."""
        query = "SELECT id_hash FROM authorization_transactions WHERE state_hash IS NULL AND NOT connected"
        return len(run_sql(self.pages.file, query))

    @property
    def connected(self) -> dict[str, str]:
        return self.pages.connected


@asynccontextmanager
async def open_authorization_pages(
    folder: Path, template: Path, *, nextcloud: str = NEXTCLOUD
) -> AsyncGenerator[AuthorizationPages]:
    """Build the fixture; everything is closed at the end."""
    async with open_multi_user_pages(folder, template, nextcloud=nextcloud, issuer=nextcloud) as pages:
        pages.people = ORIGIN
        yield AuthorizationPages(pages)


def ask_url(client_id: str = "mcp-claude", **fields: str) -> str:
    """Return the URL of a client's authorization request."""
    usual = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": HOSTED,
        "state": "of the client",
        "code_challenge": challenge_of(VERIFIER),
        "code_challenge_method": "S256",
    }
    return f"/authorize?{urlencode({**usual, **fields})}"


def fields_of(page: httpx2.Response) -> dict[str, str]:
    """Read the hidden fields of a page's form."""
    return dict(_FIELD.findall(page.text))


def client_browser(
    authorizations: AuthorizationPages,
    settings: WebConfig | None = None,
    *,
    address: str = "127.0.0.1",
    **headers: str,
) -> httpx2.AsyncClient:
    """Return a browser for the pages: it keeps cookies and sends the origin of its forms."""
    transport = httpx2.ASGITransport(authorizations.application(settings), client=(address, 1))
    return httpx2.AsyncClient(transport=transport, base_url=ORIGIN, headers=USUAL_HEADERS | headers)


async def answer(
    browser: httpx2.AsyncClient, what: str = "allow", *scopes: str, address: str = "", **changes: str
) -> httpx2.Response:
    """Open an authorization request, tick scopes, and press a button."""
    page = await browser.get(address or ask_url())
    form: Mapping[str, object] = {**fields_of(page), "answer": what, **fields_for(*scopes), **changes}
    return await browser.post("/authorize", data=form)


async def return_from_nextcloud(
    browser: httpx2.AsyncClient,
    authorizations: AuthorizationPages,
    name: str = "bob",
    *scopes: str,
    address: str = "",
) -> httpx2.Response:
    """Press Allow, sign in to Nextcloud as a user, and return."""
    redirect_target = await answer(browser, "allow", *(scopes or ["notes:read"]), address=address)
    query = {"code": authorizations.pages.code(name), "state": state_of(target_of(redirect_target))}
    return await browser.get("/oauth/callback/nextcloud", params=query)


async def confirm(
    browser: httpx2.AsyncClient,
    authorizations: AuthorizationPages,
    what: str = "mine",
    name: str = "bob",
    *scopes: str,
    address: str = "",
) -> httpx2.Response:
    """Complete the request, and answer whether the account is the right one."""
    back = await return_from_nextcloud(browser, authorizations, name, *scopes, address=address)
    page = await browser.get(back.headers["location"])
    return await browser.post("/authorize/confirm", data={**fields_of(page), "answer": what})


async def allowed_by(
    browser: httpx2.AsyncClient, authorizations: AuthorizationPages, redirect_target: httpx2.Response
) -> frozenset[str]:
    """Go on from the page that leads to Nextcloud to the end; return what the client may do."""
    query = {"code": authorizations.pages.code("bob"), "state": state_of(target_of(redirect_target))}
    back = await browser.get("/oauth/callback/nextcloud", params=query)
    page = await browser.get(back.headers["location"])
    await browser.post("/authorize/confirm", data={**fields_of(page), "answer": "mine"})
    return authorizations.pages.clients["bob", "mcp-claude"].scopes
