"""The logos that clients name in their metadata (`logo_uri`), for the pages that ask and list.

Any client can name any address and any image. So they are fetched like the clients' documents: from public addresses,
by https, within limits on size, time and number. The page holds the image itself: the browser asks no other host.
Drawings (SVG) and images of many pixels are left out: they can keep a browser busy.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, cast

import anyio
import httpx2

from nextcloud_mcp_server.auth.builtin import document_source
from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.clients import ClientRecords
from nextcloud_mcp_server.auth.client_identity import identity
from nextcloud_mcp_server.auth.rate_limiter import RateLimiter
from nextcloud_mcp_server.errors import TooManyRequests
from nextcloud_mcp_server.nextcloud.image_size import size_of
from nextcloud_mcp_server.nextcloud.picture import MOST_BYTES, Picture
from nextcloud_mcp_server.storage.oauth_records import Client

#: A page waits so long for logos that it does not know.
MOST_SECONDS: Final = 1.0
MOST_PIXELS: Final = 1_024
_FRESH_SECONDS, _PAUSE_SECONDS = 86_400.0, 600.0
_MOST_KEPT: Final = 64
#: Requests for logos per host and minute, and in all per hour.
MOST_PER_HOST: Final = 10
MOST_IN_ALL: Final = 300
_OK: Final = 200
_EVERYBODY: Final = "*"


class ClientLogos:
    """Fetches logos when a page shows their clients, and keeps them in memory for a day."""

    def __init__(
        self,
        records: ClientRecords,
        outside: httpx2.AsyncClient,
        *,
        hosts: AllowedClients | None = None,
        seconds: float = MOST_SECONDS,
        monotonic: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._records = records
        self._outside = outside
        self._hosts = hosts or AllowedClients()
        self._seconds = seconds
        self._monotonic = monotonic
        self._kept: OrderedDict[str, tuple[Picture | None, float]] = OrderedDict()
        self._per_host = RateLimiter(MOST_PER_HOST, seconds=60.0, monotonic=monotonic)
        self._in_all = RateLimiter(MOST_IN_ALL, seconds=3_600.0, monotonic=monotonic)

    async def of(self, client: Client, *, shown_as: str = "") -> Picture | None:
        """Return the logo of a client; None where it has none, and where it did not come in time.

        It is also None if the client's name, or the one that the page shows, imitates another client.
        """
        host = document_source.host_of(client.logo)
        if host is None or not self._hosts.allow_host(host):
            return None
        names = {client.name, shown_as or client.name}
        if any(identity(client.client_id, name, client).imitates for name in names):
            return None
        kept, until = self._kept.get(client.logo, (None, 0.0))
        if until > self._monotonic():
            return kept
        # Before the request: others who want the same logo do not send it again.
        self._keep(client.logo, kept, _PAUSE_SECONDS)
        try:
            self._spend(host)
            with anyio.fail_after(self._seconds):
                found = await self._fetch(client.logo)
        except (TooManyRequests, TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError):
            return kept
        self._keep(client.logo, found, _PAUSE_SECONDS if found is None else _FRESH_SECONDS)
        return found

    async def of_all(self, names: Mapping[str, str]) -> Mapping[str, Picture]:
        """Return the logos of those clients that have one, fetched at the same time.

        `names` has the id of each client, and the name that the page shows.
        """
        found: dict[str, Picture] = {}

        async def find(client_id: str, name: str) -> None:
            client = await self._records.find(client_id)
            picture = None if client is None else await self.of(client, shown_as=name)
            if picture is not None:
                found[client_id] = picture

        async with anyio.create_task_group() as group:
            for client_id, name in names.items():
                group.start_soon(find, client_id, name)
        return found

    def _keep(self, url: str, picture: Picture | None, seconds: float) -> None:
        self._kept[url] = picture, self._monotonic() + seconds
        self._kept.move_to_end(url)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    def _spend(self, host: str) -> None:
        limiters = ((self._per_host, host), (self._in_all, _EVERYBODY))
        for limiter, key in limiters:
            limiter.check(key)
        for limiter, key in limiters:
            limiter.count(key)

    async def _fetch(self, url: str) -> Picture | None:
        headers = {"Accept": "image/png, image/webp, image/jpeg", "Accept-Encoding": "identity"}
        async with self._outside.stream("GET", url, headers=headers) as response:
            if (
                response.status_code != _OK
                or response.headers.get("Content-Encoding", "identity") != "identity"
            ):
                return None
            body = bytearray()
            async for chunk in cast("httpx2.AsyncByteStream", response.stream):
                body += chunk
                if len(body) > MOST_BYTES:
                    return None
        picture = Picture.of(response.headers.get("Content-Type", ""), bytes(body))
        size = None if picture is None else size_of(picture.media_type, picture.content)
        return picture if size is not None and min(size) > 0 and max(size) <= MOST_PIXELS else None
