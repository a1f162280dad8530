"""The application on a free loopback port, with a fake of Nextcloud's own page, and a browser."""

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypedDict

from playwright import async_api, sync_api
from playwright.sync_api import ViewportSize
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from nextcloud_mcp_server.storage.records import ElicitationState
from nextcloud_mcp_server.web.cloud import ShowsCloud
from tests.auth_fixtures import make_template
from tests.cloud_fixtures import family_cloud
from tests.e2e.served import Blocking, in_a_loop_of_its_own, listener, port_of, serving
from tests.single_user_pages import (
    NEXTCLOUD_HOST,
    SingleUserPages,
    application,
    config,
    open_single_user_pages,
)

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
class SingleUserServer:
    """The address of the pages, and the consent requests behind them (`SingleUserPages`)."""

    origin: str
    consent: Any

    def provision(self, elicitation_id: str) -> str:
        return f"{self.origin}/oauth/provision?elicitationId={elicitation_id}"


@contextmanager
def raised() -> Generator[SingleUserServer]:
    """Serve the pages, and a page of Nextcloud on another port, for as long as the block runs."""
    with TemporaryDirectory() as folder, listener() as ours, listener() as others:
        opened = _served(Path(folder), ours, others)
        with in_a_loop_of_its_own(opened) as (portal, pages):
            yield SingleUserServer(f"http://127.0.0.1:{port_of(ours)}", Blocking(portal, pages))


@asynccontextmanager
async def _served(folder: Path, ours: socket, others: socket) -> AsyncGenerator[SingleUserPages]:
    host, nextcloud = f"127.0.0.1:{port_of(ours)}", f"http://localhost:{port_of(others)}"
    settings = config(allowed_hosts=frozenset({host}), allowed_origins=frozenset({f"http://{host}"}))
    template = await make_template(folder)
    async with open_single_user_pages(folder, template, url=nextcloud) as pages:
        confirming = Starlette(routes=[Route("/{rest:path}", _confirms(pages))])
        shown = ShowsCloud(application(pages, settings), family_cloud(), host=NEXTCLOUD_HOST)
        async with serving([(shown, ours), (confirming, others)]):
            yield pages


def _confirms(pages: SingleUserPages) -> Callable[[Request], Awaitable[HTMLResponse]]:
    """Fake Nextcloud's page: opening it confirms."""

    async def confirm(_request: Request) -> HTMLResponse:
        for elicitation_id in pages.ids:
            if await pages.state(elicitation_id) is ElicitationState.OPENED:
                await pages.complete(elicitation_id)
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


#: How every page is looked at. German is the longest language, so it gets the phone; Spanish the narrowest screen on
#: which text must not need scrolling to the side (WCAG 2.2, 1.4.10).
LOOKS = {
    "phone-light-de": window_options(size=PHONE, scheme="light", language="de"),
    "desktop-dark-en": window_options(size=DESKTOP, scheme="dark", language="en"),
    "phone-dark-fr": window_options(size=PHONE, scheme="dark", language="fr"),
    "narrow-light-es": window_options(size=(320, 640), scheme="light", language="es"),
}
