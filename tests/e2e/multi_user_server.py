"""The pages of a multi-user server, with fakes for sign-in and Nextcloud on another port."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import BrowserContext, Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from nextcloud_mcp_server.web.cloud import ShowsCloud
from tests.auth_fixtures import make_template
from tests.authorization_pages import AuthorizationPages, open_authorization_pages
from tests.cloud_fixtures import family_cloud
from tests.e2e.navigation import follow
from tests.e2e.served import Blocking, in_a_loop_of_its_own, listener, port_of, serving
from tests.issuer_fake import ISSUER, Params
from tests.multi_user_pages import NEXTCLOUD_HOST, MultiUserPages, config, url

PEOPLE = ("alice", "bob")


@dataclass(frozen=True, slots=True)
class MultiUserServers:
    """The addresses of pages and fakes, and what is behind the pages (`MultiUserPages`, `AuthorizationPages`)."""

    origin: str
    elsewhere: str
    consent_service: Any
    clients: Any

    def page(self, path: str, elicitation_id: str) -> str:
        return f"{self.origin}{url(path, elicitation_id)}"

    def sign_in(self, window: BrowserContext, name: str = "alice") -> None:
        """Put a user's browser session into a browser."""
        token = self.consent_service.session(name)
        window.add_cookies([{"name": "session", "value": token, "url": self.origin, "httpOnly": True}])


@contextmanager
def raised_multi_user(*, lets_clients_in: bool = False) -> Generator[MultiUserServers]:
    """Serve the pages, and the fakes under another host name, while the block runs."""
    with TemporaryDirectory() as folder, listener() as ours, listener() as others:
        origin = f"http://127.0.0.1:{port_of(ours)}"
        # Another site for the browser, as in production: cookies and policies must work across sites.
        elsewhere = f"http://localhost:{port_of(others)}"
        opened = _served(Path(folder), ours, others, (origin, elsewhere), lets_clients_in=lets_clients_in)
        with in_a_loop_of_its_own(opened) as (portal, (pages, clients)):
            yield MultiUserServers(origin, elsewhere, Blocking(portal, pages), Blocking(portal, clients))


@asynccontextmanager
async def _served(
    folder: Path, ours: socket, others: socket, addresses: tuple[str, str], *, lets_clients_in: bool
) -> AsyncGenerator[tuple[MultiUserPages, AuthorizationPages]]:
    origin, elsewhere = addresses
    settings = config(
        allowed_hosts=frozenset({urlsplit(origin).netloc}),
        allowed_origins=frozenset({origin}),
        secure_cookies=False,
    )
    template = await make_template(folder)
    async with open_authorization_pages(folder, template, nextcloud=elsewhere) as clients:
        pages = clients.pages
        if not lets_clients_in:
            pages.people = ISSUER
        at_the_issuer = _asks("Sign in", f"{origin}/oauth/callback/sign-in", pages.signed_in_at)
        at_nextcloud = _asks("Grant access", f"{origin}/oauth/callback/nextcloud", pages.confirmed_at)
        fakes = Starlette(
            routes=[
                Route("/authorize", at_the_issuer),
                Route("/index.php/apps/oauth2/authorize", at_nextcloud),
            ]
        )
        served = clients.application(settings) if lets_clients_in else pages.application(settings)
        shown = ShowsCloud(served, family_cloud(), host=NEXTCLOUD_HOST)
        async with serving([(shown, ours), (fakes, others)]):
            yield pages, clients


def sign_in_as(page: Page, name: str) -> None:
    """Choose the user who signs in, at the fake identity provider."""
    follow(page.get_by_role("link", name=f"Sign in as {name}"))


def grant_as(page: Page, name: str) -> None:
    """Confirm as a user, at the fake Nextcloud."""
    follow(page.get_by_role("link", name=f"Grant access as {name}"))


def _asks(
    what: str, back_to: str, confirm: Callable[[str, str], Params]
) -> Callable[[Request], Awaitable[HTMLResponse]]:
    async def ask(request: Request) -> HTMLResponse:
        links = "".join(
            f"<p><a href='{back_to}?{escape(urlencode(confirm(str(request.url), name), doseq=True))}'>"
            f"{what} as {name}</a></p>"
            for name in PEOPLE
        )
        return HTMLResponse(f"<!doctype html><html lang='en'><title>{what}</title><h1>{what}</h1>{links}")

    return ask
