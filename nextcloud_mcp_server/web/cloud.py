"""The Nextcloud of this server on its pages: its host, and the name, colour and logo that it gives itself.

The name is the choice of that Nextcloud's administrator and no proof, so the host always stands beside it. The logo
comes from this server: the browser asks no other host, and the content security policy needs no exception.
"""

from collections.abc import Awaitable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.nextcloud.theming import Theming

_A_YEAR = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Cloud:
    """What is known of a Nextcloud; `path` is that of its logo on this server, empty where it has none.

    `name` may be any text: pages clean it.
    """

    name: str
    host: str
    color: str
    path: str

    @classmethod
    def of(cls, theming: Theming, host: str) -> "Cloud":
        """Describe the Nextcloud at a host."""
        path = f"/static/logo.{theming.logo.file_name}" if theming.logo else ""
        return cls(theming.name, host, theming.color, path)


class KnowsTheming(Protocol):
    """Knows the theming of a Nextcloud; see `nextcloud.theming.KnownTheming`."""

    current: Theming | None

    def wanted(self) -> Awaitable[Theming | None]:
        """Return what is known, and read it in the background if that is due."""
        ...


@dataclass(frozen=True, slots=True)
class _Shown:
    cloud: Cloud
    logo: Picture | None


_shown: ContextVar[_Shown | None] = ContextVar("shown_cloud", default=None)


def shown_cloud() -> Cloud | None:
    """Return the Nextcloud that the page under way shows; None while nothing is known of it."""
    shown = _shown.get()
    return None if shown is None else shown.cloud


def logo_at(path: str) -> Response | None:
    """Answer with the logo, if it has this path now."""
    shown = _shown.get()
    if shown is None or shown.logo is None or shown.cloud.path != path:
        return None
    # Opened by itself a drawing would be a page of this server; an image in a page is shown all the same.
    headers = {"Cache-Control": _A_YEAR, "Content-Disposition": "attachment"}
    return Response(shown.logo.content, media_type=shown.logo.media_type, headers=headers)


class ShowsCloud:
    """Lets every page below know the Nextcloud; only requests for pages make it read."""

    def __init__(self, app: ASGIApp, theming: KnowsTheming, *, host: str) -> None:
        self._app = app
        self._theming = theming
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with what is known of the Nextcloud."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        a_page = "text/html" in Headers(scope=scope).get("accept", "")
        theming = await self._theming.wanted() if a_page else self._theming.current
        shown = None if theming is None else _Shown(Cloud.of(theming, self._host), theming.logo)
        token = _shown.set(shown)
        try:
            await self._app(scope, receive, send)
        finally:
            _shown.reset(token)
