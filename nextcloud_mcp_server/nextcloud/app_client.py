"""The base of the clients of apps, and what one is built from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypedDict, TypeVar, Unpack

from pydantic import TypeAdapter

from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.content_cache import CachedContent, Topic
from nextcloud_mcp_server.nextcloud.decoding import decoded_aside
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.user_cache import UserCache

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connection:
    """One user's way to Nextcloud: `wide` sends more requests at once, `content` and `cache` outlive a call."""

    http: NextcloudHttp
    wide: NextcloudHttp | None
    content: Callable[[Topic], CachedContent[Any] | None]
    cache: UserCache


class RequestOptions(TypedDict, total=False):
    """What a client may say of a request, as in `NextcloudHttp.request`."""

    params: Mapping[str, str | int] | None
    json: object
    sentences: Mapping[int, str] | None


class AppClient:
    """The client of one app, for one user; `Account.client` builds and keeps it."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    @classmethod
    def from_connection(cls, connection: Connection) -> Self:
        """Build the client; one that needs more than the HTTP client overrides this."""
        return cls(connection.http)

    async def _request(self, method: str, path: str, kind: type[T], **options: Unpack[RequestOptions]) -> T:
        """Send one request; return the JSON of the response as a model."""
        response = await self._http.request(method, path, **options)
        return await decoded_aside(response, _adapter(kind), uid=self._http.uid)

    async def _request_ocs(
        self, method: str, path: str, kind: type[T], **options: Unpack[RequestOptions]
    ) -> T:
        """Send one request to OCS version 2; return the data in the envelope of the response."""
        options["params"] = {**(options.get("params") or {}), "format": "json"}
        envelope: Any = ocs.Envelope.__class_getitem__(kind)
        return (await self._request(method, f"/ocs/v2.php{path}", envelope, **options)).ocs.data


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401  # a model, or a list of them
    return TypeAdapter(kind)
