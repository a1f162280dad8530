"""The version, apps and capabilities that Nextcloud reports to one user."""

from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
from pydantic import Field, TypeAdapter, ValidationError

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import ocs
from nextcloud_mcp_server.nextcloud.decoding import decoded
from nextcloud_mcp_server.nextcloud.etag import of, quote
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp

_T = TypeVar("_T", bound=Answer)


@dataclass(frozen=True, slots=True)
class ServerCapabilities:
    """Version and apps, such as "notes" or "files"; `notes_api_versions` such as ("0.2", "1.3", "1.4").

    `timezone` is the user's, such as "Europe/Berlin"; empty before Nextcloud 31. A later request with `etag` tells
    whether this has changed.
    """

    version: str
    apps: frozenset[str]
    notes_api_versions: tuple[str, ...] = ()
    timezone: str = ""
    etag: str | None = None


class _Version(Answer):
    string: str


class _User(Answer):
    timezone: str = ""


class _Core(Answer):
    user: _User = Field(default_factory=_User)


class _Notes(Answer):
    api_version: list[str] = Field(default_factory=list[str])


class _Files(Answer):
    # The app for versions is announced only here.
    versioning: bool = False


class _Data(Answer):
    version: _Version
    # Apps put values of any type here, and PHP writes an empty map as a list.
    capabilities: dict[str, Any]


_NOT_MODIFIED = 304
_PATH = "/ocs/v2.php/cloud/capabilities"
#: Far more than many apps say of themselves. They are read before a call begins, so without its permit to hold much.
_MOST_BYTES = 2_097_152
_DATA = TypeAdapter(ocs.Envelope[_Data])


class CapabilitiesClient:
    """Reads which apps are available to one user."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    async def get(self) -> ServerCapabilities:
        """Fetch version and apps.

        Raises:
          CredentialRejected: The response is the anonymous set: Nextcloud did not accept the credential.
        """
        return await self._checked(await self._ask({}))

    async def changed(self, etag: str | None) -> ServerCapabilities | None:
        """Fetch version and apps, or None if `etag` is still current; raises like `get`."""
        response = await self._ask({} if etag is None else {"If-None-Match": quote(etag)})
        return None if response.status_code == _NOT_MODIFIED else await self._checked(response)

    async def _ask(self, headers: dict[str, str]) -> httpx2.Response:
        return await self._http.request(
            "GET", _PATH, params={"format": "json"}, headers=headers, max_bytes=_MOST_BYTES
        )

    async def _checked(self, response: httpx2.Response) -> ServerCapabilities:
        """Parse a response for a signed-in user; the anonymous set puts the credential in doubt."""
        data = decoded(response, _DATA).ocs.data
        if "core" not in data.capabilities and "X-User-Id" not in response.headers:
            refused = errors.CredentialRejected(
                "Nextcloud no longer accepts the access that was granted. "
                "Call request_nextcloud_access to ask for it again."
            )
            raise await self._http.doubted(_PATH, refused)
        return _read(data, response)


def _read(data: _Data, response: httpx2.Response) -> ServerCapabilities:
    versioning = _part(_Files, data.capabilities.get("files")).versioning
    apps = frozenset(data.capabilities) | ({"files_versions"} if versioning else set[str]())
    return ServerCapabilities(
        version=data.version.string,
        apps=apps,
        notes_api_versions=tuple(_part(_Notes, data.capabilities.get("notes")).api_version),
        timezone=_part(_Core, data.capabilities.get("core")).user.timezone,
        etag=of(response.headers),
    )


def _part(kind: type[_T], value: object) -> _T:
    """Parse one app's capabilities; return an empty model for invalid ones, so that other apps are kept."""
    try:
        return kind.model_validate(value)
    except ValidationError:
        return kind()
