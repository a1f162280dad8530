"""The application on a free loopback port, with a fake of Nextcloud's own page, and a browser."""

import shutil
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Thread
from typing import Literal, TypedDict

import uvicorn
from playwright import async_api, sync_api
from playwright.sync_api import ViewportSize
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from tests.memory_consent import MemoryConsent, application, config

# The default is five seconds, which may be too short on a busy computer. Here, because tests of other folders that
# open a browser import this module too.
async_api.expect.set_options(timeout=60_000)
sync_api.expect.set_options(timeout=60_000)

PHONE = (390, 844)
DESKTOP = (1280, 900)
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True, slots=True)
class Stage:
    """The address of the pages, and the state machine behind them."""

    origin: str
    consent: MemoryConsent

    def provision(self, elicitation_id: str) -> str:
        return f"{self.origin}/oauth/provision?elicitationId={elicitation_id}"


@contextmanager
def raised() -> Generator[Stage]:
    """Serve the pages for as long as the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        origin = f"http://{host}"
        consent = MemoryConsent(now=datetime.now(UTC), login_url=f"{origin}/nextcloud/login/v2/flow/sample")
        settings = config(allowed_hosts=frozenset({host}), allowed_origins=frozenset({origin}))
        pages = application(consent, settings)
        both = Starlette(routes=[Route("/nextcloud/{rest:path}", _nextcloud(consent)), Mount("/", pages)])
        server = uvicorn.Server(
            uvicorn.Config(both, log_config=None, lifespan="off", timeout_graceful_shutdown=5)
        )
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Stage(origin, consent)
        finally:
            server.should_exit = True
            thread.join()


def _nextcloud(consent: MemoryConsent) -> Callable[[Request], Awaitable[HTMLResponse]]:
    """Fake Nextcloud's page: opening it confirms."""

    async def confirm(_request: Request) -> HTMLResponse:
        for consent_request in list(consent.consent_service.values()):
            if consent_request.login_url is not None and not consent_request.state.final:
                consent.complete(consent_request.id)
        return HTMLResponse(
            "<!doctype html><html lang='en'><title>Nextcloud</title><h1>Account connected</h1>"
        )

    return confirm


class ChromiumOptions(TypedDict):
    """How to start Chromium: the installed one, with a new profile and without traffic of its own."""

    executable_path: str | None
    args: list[str]


class WindowOptions(TypedDict):
    """A window with a size, a colour scheme and a language."""

    viewport: ViewportSize
    color_scheme: Literal["light", "dark"]
    locale: str
    device_scale_factor: float


def chromium_options() -> ChromiumOptions:
    return {"executable_path": shutil.which("chromium"), "args": _ARGUMENTS}


def window_options(
    *, size: tuple[int, int] = PHONE, scheme: Literal["light", "dark"] = "light", language: str = "en"
) -> WindowOptions:
    width, height = size
    return {
        "viewport": {"width": width, "height": height},
        "color_scheme": scheme,
        "locale": language,
        "device_scale_factor": 2 if size == PHONE else 1,
    }
