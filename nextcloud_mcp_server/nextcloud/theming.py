"""The name, colour and logo that a Nextcloud gives itself, as it tells them to anyone (app `theming`)."""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

import anyio
from pydantic import Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.decoding import decoded
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

logger = logging.getLogger(__name__)

#: A larger logo is not shown.
MOST_LOGO_BYTES: Final = 262_144
_MOST_ANSWER_BYTES: Final = 1_048_576
_REQUEST_SECONDS: Final = 10.0
#: How long a page waits for the first answer; a page that comes later waits no more.
WAIT_SECONDS: Final = 0.3
_FRESH_SECONDS, _PAUSE_SECONDS = 3_600.0, 60.0

_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
#: The blue of Nextcloud, where the answer names no colour.
_USUAL_COLOR: Final = "#00679e"


@dataclass(frozen=True, slots=True)
class Theming:
    """What the administrator of a Nextcloud chose: `color` is written as `#rrggbb`, and lies behind the logo."""

    name: str
    color: str
    logo: Picture | None


class _Theming(Answer):
    name: str = ""
    color: str = ""
    logo: str = ""


class _Capabilities(Answer):
    theming: Any = None


class _Data(Answer):
    capabilities: _Capabilities = Field(default_factory=_Capabilities)


async def read(http: NextcloudHttp) -> Theming | None:
    """Fetch the theming without a credential; None where the app is off.

    Only the path and query of the logo's address are used, at the configured Nextcloud: the answer may name any host.

    Raises:
      NextcloudError: Nextcloud does not answer, or with something else.
    """
    response = await http.request(
        "GET",
        "/ocs/v2.php/cloud/capabilities",
        params={"format": "json"},
        max_bytes=_MOST_ANSWER_BYTES,
        timeout_seconds=_REQUEST_SECONDS,
    )
    described: object = decoded(response, TypeAdapter(ocs.Envelope[_Data])).ocs.data.capabilities.theming
    if not isinstance(described, dict):
        return None
    texts = {
        name: text for name, text in cast("dict[str, object]", described).items() if isinstance(text, str)
    }
    found = _Theming.model_validate(texts)
    color = found.color if _COLOR.fullmatch(found.color) else _USUAL_COLOR
    return Theming(found.name, color, await _logo(http, found.logo) if found.logo else None)


async def _logo(http: NextcloudHttp, address: str) -> Picture | None:
    try:
        path = _path(http.base, address)
        response = await http.request(
            "GET",
            path,
            headers={"Accept": "image/*"},
            max_bytes=MOST_LOGO_BYTES,
            timeout_seconds=_REQUEST_SECONDS,
        )
    except (ValueError, errors.NextcloudMcpError):
        return None
    return Picture.of(response.headers.get("Content-Type", ""), response.content, drawn=True)


def _path(base: NextcloudUrl, address: str) -> str:
    parts = urlsplit(base.rebuild(address))
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.path.removeprefix(base.prefix)}{query}"


class KnownTheming:
    """Keeps the theming in memory, and reads it again from time to time, only while pages are shown.

    Pages never wait for a Nextcloud that is away: only those that come before the first try has ended wait, and
    `WAIT_SECONDS` at most.
    """

    def __init__(self, fetch: Callable[[], Awaitable[Theming | None]]) -> None:
        self._fetch = fetch
        self._wanted = anyio.Event()
        self._tried = anyio.Event()
        self._due = 0.0
        self.current: Theming | None = None

    async def wanted(self) -> Theming | None:
        """Return what is known, and let `run` read it if that is due."""
        if anyio.current_time() >= self._due:
            self._wanted.set()
        if self.current is None:
            with anyio.move_on_after(WAIT_SECONDS):
                await self._tried.wait()
        return self.current

    def forget(self) -> None:
        """Let the next page make `run` read it again; until then the former one is shown."""
        self._due = 0.0

    async def run(self) -> None:
        """Read whenever a page wants it, as long as the server runs."""
        while True:
            await self._wanted.wait()
            try:
                self.current = await self._fetch()
                self._due = anyio.current_time() + _FRESH_SECONDS
            except Exception as error:  # noqa: BLE001 - a supervisor: a missing logo must not stop the server
                logger.debug("the theming of Nextcloud could not be read: %s", type(error).__name__)
                self._due = anyio.current_time() + _PAUSE_SECONDS
            self._wanted = anyio.Event()
            self._tried.set()
