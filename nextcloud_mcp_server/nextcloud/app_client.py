"""The base of the clients of apps, and what one is built from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from nextcloud_mcp_server.nextcloud.content_cache import CachedContent, Topic
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.user_cache import UserCache


@dataclass(frozen=True, slots=True)
class Connection:
    """One user's way to Nextcloud: `wide` sends more requests at once, `content` and `cache` outlive a call."""

    http: NextcloudHttp
    wide: NextcloudHttp | None
    content: Callable[[Topic], CachedContent[Any] | None]
    cache: UserCache


class AppClient:
    """The client of one app, for one user; `Account.client` builds and keeps it."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    @classmethod
    def from_connection(cls, connection: Connection) -> Self:
        """Build the client; one that needs more than the HTTP client overrides this."""
        return cls(connection.http)
