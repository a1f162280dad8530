"""The app menu of one user, which also has apps that announce nothing in the capabilities.

`GET /ocs/v2.php/core/navigation/apps` answers `[{"id": "notes", "app": "notes", "type": "link", "name": "Notes",
"href": "/apps/notes/", …}, …]` with an etag, and 304 when asked with that (seen at 32.0.1). An app may give its entry
any id, so both names count. When an app lacks its icon, the whole response is 500.
"""

from dataclasses import dataclass

from pydantic import TypeAdapter

from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.decoding import decoded
from nextcloud_mcp_server.nextcloud.etag import of, quote
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp

_NOT_MODIFIED = 304


@dataclass(frozen=True, slots=True)
class Menu:
    """The apps, such as "notes" or "news", and the etag for the next conditional request."""

    apps: frozenset[str]
    etag: str | None


class _Item(Answer):
    id: str
    app: str | None = None


#: As of the capabilities, which are read before a call begins, too.
_MOST_BYTES = 2_097_152
_ITEMS = TypeAdapter(ocs.Envelope[list[_Item]])


class MenuClient:
    """Reads which apps one user can open."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    async def changed(self, etag: str | None) -> Menu | None:
        """Fetch the apps, or None if `etag` is still current."""
        path, params = "/ocs/v2.php/core/navigation/apps", {"format": "json"}
        headers = {} if etag is None else {"If-None-Match": quote(etag)}
        response = await self._http.request(
            "GET", path, params=params, headers=headers, max_bytes=_MOST_BYTES
        )
        if response.status_code == _NOT_MODIFIED:
            return None
        items = decoded(response, _ITEMS).ocs.data
        names = {name for item in items for name in (item.id, item.app) if name}
        return Menu(frozenset(names), of(response.headers))
