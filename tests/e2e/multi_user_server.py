"""The pages of a multi-user server, with fakes for sign-in and Nextcloud on another port."""

import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

import uvicorn
from playwright.sync_api import BrowserContext, Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.memory_authorizations import MemoryAuthorizations
from tests.memory_consent_service import MemoryConsentService, application, config, url

PEOPLE = ("alice", "bob")


@dataclass(frozen=True, slots=True)
class MultiUserServers:
    """The addresses of pages and fakes, and the state machines behind the pages."""

    origin: str
    elsewhere: str
    consent_service: MemoryConsentService
    clients: MemoryAuthorizations

    def page(self, path: str, elicitation_id: str) -> str:
        return f"{self.origin}{url(path, elicitation_id)}"

    def sign_in(self, window: BrowserContext, name: str = "alice") -> None:
        """Put a user's browser session into a browser."""
        token = self.consent_service.session(name)
        window.add_cookies([{"name": "session", "value": token, "url": self.origin, "httpOnly": True}])


@contextmanager
def raised_multi_user(*, lets_clients_in: bool = False) -> Generator[MultiUserServers]:
    """Serve the pages, and the fakes under another host name, while the block runs."""
    consent_service, clients = MemoryConsentService(), MemoryAuthorizations()
    with _listener() as ours, _listener() as others:
        host = f"127.0.0.1:{ours.getsockname()[1]}"
        origin = f"http://{host}"
        # Another site for the browser, as in production: cookies and policies must work across sites.
        elsewhere = f"http://localhost:{others.getsockname()[1]}"
        consent_service.issuer = consent_service.nextcloud = clients.nextcloud = elsewhere
        settings = config(
            allowed_hosts=frozenset({host}), allowed_origins=frozenset({origin}), secure_cookies=False
        )
        stand_ins = Starlette(
            routes=[
                Route("/authorize", _asks("Sign in", f"{origin}/oauth/callback/sign-in")),
                Route(
                    "/index.php/apps/oauth2/authorize",
                    _asks("Grant access", f"{origin}/oauth/callback/nextcloud"),
                ),
            ]
        )
        pages = application(
            consent_service, settings, authorizations=clients.ready if lets_clients_in else None
        )
        with _serving(pages, ours), _serving(stand_ins, others):
            yield MultiUserServers(origin, elsewhere, consent_service, clients)


def sign_in_as(page: Page, name: str) -> None:
    """Choose the user who signs in, at the fake identity provider."""
    page.get_by_role("link", name=f"Sign in as {name}").click()


def grant_as(page: Page, name: str) -> None:
    """Confirm as a user, at the fake Nextcloud."""
    page.get_by_role("link", name=f"Grant access as {name}").click()


def _asks(what: str, back_to: str) -> Callable[[Request], Awaitable[HTMLResponse]]:
    async def ask(request: Request) -> HTMLResponse:
        state = request.query_params["state"]
        links = "".join(
            f"<p><a href='{back_to}?code={name}&amp;state={state}'>{what} as {name}</a></p>"
            for name in PEOPLE
        )
        return HTMLResponse(f"<!doctype html><html lang='en'><title>{what}</title><h1>{what}</h1>{links}")

    return ask


def _listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


@contextmanager
def _serving(app: ASGIApp, listener: socket.socket) -> Generator[None]:
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=5))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
