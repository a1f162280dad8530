"""The administration of the core app `oauth2`, and Nextcloud's security settings page.

There is no API to list clients, so they are read from the administrator's page
(`apps/oauth2/lib/Settings/Admin.php`). The same page shows the address that Nextcloud sees for this server
(`bruteforcesettings`). Both values may be missing: the page may change with any version.
"""

import base64
import binascii
import re
import shlex
import zlib
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TypeVar

import httpx2
from pydantic import Field, SecretStr, TypeAdapter, ValidationError

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import character_references
from nextcloud_mcp_server.nextcloud import body, error_mapping
from nextcloud_mcp_server.nextcloud.connection_errors import unreachable
from nextcloud_mcp_server.nextcloud.credential import NextcloudCredential
from nextcloud_mcp_server.nextcloud.decoding import decoded
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

_T = TypeVar("_T")
_CLIENTS = "/index.php/apps/oauth2/clients"
_AUTHORIZE = "/index.php/apps/oauth2/authorize"
_ALLOW_LIST = "/index.php/apps/bruteforcesettings/ipwhitelist"
_SECURITY_PAGE = "/index.php/settings/admin/security"
_REFUSED = {
    401: "Nextcloud does not accept this name and password. Nothing was made.",
    403: "Nextcloud does not let this account register a client: it is no administrator's. Nothing was made: run it "
    "again with the name and password of an administrator.",
}
_NOT_ALLOWED = {
    403: "Nextcloud does not let this account change its allow list.",
    404: "Nextcloud's app “Brute-force settings” is not there, or switched off.",
}
#: Sent by `PasswordConfirmationMiddleware`; since 34 it rejects app passwords (nextcloud/server#61646).
_NOT_CONFIRMED = "X-NC-Auth-NotConfirmed"


class RegisteredClient(Answer):
    """A client in the list of the page; its secret can no longer be read."""

    id: int
    name: str
    redirect_uri: str = Field(validation_alias="redirectUri")


class MadeClient(Answer):
    """A new client. Only this response has its secret."""

    client_id: str = Field(validation_alias="clientId", min_length=1)
    client_secret: SecretStr = Field(validation_alias="clientSecret", min_length=1)
    redirect_uri: str = Field(validation_alias="redirectUri")


@dataclass(frozen=True, slots=True)
class SecurityPage:
    """The values on the page; None for missing ones."""

    clients: tuple[RegisteredClient, ...] | None
    our_address: str | None
    allow_listed: bool | None


_ADDRESS = TypeAdapter(str)
_LISTED = TypeAdapter(bool)


class OAuth2Admin:
    """Registers a client on behalf of an administrator."""

    def __init__(
        self,
        pool: httpx2.AsyncClient,
        url: NextcloudUrl,
        *,
        credential: NextcloudCredential,
        uid: str,
        public_url: NextcloudUrl | None = None,
    ) -> None:
        self._http = NextcloudHttp(pool, url, credential=credential, uid=uid, public_url=public_url)

    async def look(self) -> SecurityPage:
        """Fetch the security page.

        Raises:
          Forbidden: The account is not an administrator.
          NextcloudError: The request failed.
        """
        response = await self._http.request(
            "GET", _SECURITY_PAGE, headers={"Accept": "text/html"}, sentences=_REFUSED
        )
        clients = _state(response.text, "oauth2-clients", TypeAdapter(tuple[RegisteredClient, ...]))
        return SecurityPage(
            clients,
            _state(response.text, "bruteforcesettings-remote-address", _ADDRESS),
            _state(response.text, "bruteforcesettings-bypass-listed", _LISTED),
        )

    async def register(self, *, name: str, redirect_uri: str) -> MadeClient:
        """Register a client.

        Raises:
          Forbidden: The account is not an administrator, or used an app password, which 34 and newer reject here.
          NotFound: The app is disabled.
        """
        response = await self._http.request(
            "POST",
            _CLIENTS,
            json={"name": name, "redirectUri": redirect_uri},
            sentences=_REFUSED,
            answers=frozenset({403}),
        )
        if response.is_error:
            if _NOT_CONFIRMED in response.headers or "Password confirmation is required" in response.text:
                raise errors.Forbidden(
                    "Nextcloud registers a client only with the account's own password, and this was an app password. "
                    f"Nothing was made: {by_hand(name, redirect_uri)}"
                )
            raise error_mapping.from_response(response, _REFUSED)
        return decoded(response, TypeAdapter(MadeClient))

    async def allow_address(self, address: str) -> None:
        """Add one address to Nextcloud's allow list; an address that is on it already may be added twice.

        Raises:
          Forbidden: The account is not an administrator.
          NotFound: The app “Brute-force settings” is missing or disabled.
          NextcloudError: The request failed.
        """
        mask = ip_address(address).max_prefixlen
        await self._http.request(
            "POST", _ALLOW_LIST, json={"ip": address, "mask": mask}, sentences=_NOT_ALLOWED
        )


def allow_by_hand(address: str) -> str:
    """Return the command that adds one address to Nextcloud's allow list.

    Its key is derived from the address, so that it replaces no other entry and the command may be repeated.
    """
    number = zlib.crc32(ip_address(address).packed)
    network = f"{address}/{ip_address(address).max_prefixlen}"
    return f"occ config:app:set bruteForce whitelist_{number} --value={network}"


def by_hand(name: str, redirect_uri: str) -> str:
    """Return instructions with which an administrator registers a client manually."""
    return (
        f"have an administrator run 'occ oauth2:add-client {shlex.quote(name)} {redirect_uri}' on Nextcloud's machine "
        f"(from Nextcloud 34 on), or add a client “{name}” with the redirect URI {redirect_uri} under Administration "
        "settings → Security → OAuth 2.0 clients; then set NEXTCLOUD_OAUTH_CLIENT_ID and NEXTCLOUD_OAUTH_CLIENT_SECRET "
        "to what it shows. Or "
        "run this again and type the account's own password, which works without two-factor authentication."
    )


async def registered_redirect(
    pool: httpx2.AsyncClient, url: NextcloudUrl, client_id: str, *, public_url: NextcloudUrl | None = None
) -> str | None:
    """Fetch the redirect URI of a client; None for an unknown client.

    For a response type other than `code`, Nextcloud redirects at once to the registered redirect URI. That needs no
    signed-in user, and no failed token request; ten of those block this server's address for all users.

    Raises:
      Unreachable: There was no response.
    """
    headers = {"Accept": "text/html"} | ({} if public_url is None else {"Host": public_url.netloc})
    query = {"client_id": client_id, "response_type": "none", "state": "doctor"}
    try:
        response = await body.look(pool, "GET", f"{url}{_AUTHORIZE}", params=query, headers=headers)
    except httpx2.HTTPError as error:
        raise (
            unreachable(error)
            if isinstance(error, httpx2.TransportError)
            else errors.Unreachable("Nextcloud's answer could not be read.")
        ) from None
    location = response.headers.get("Location", "")
    return location.partition("?error=unsupported_response_type")[0] if "?error=" in location else None


def _state(page: str, name: str, kind: TypeAdapter[_T]) -> _T | None:
    """Return one of the values that a page contains for its scripts."""
    # Nothing is read twice: no tag holds “<” (the page escapes it), and only its first such id counts.
    found = re.search(
        rf'<input(?>[^<>]*?\bid="initial-state-{re.escape(name)}")[^<>]*?\bvalue="([^"<]*)"', page
    )
    if found is None:
        return None
    try:
        return kind.validate_json(base64.b64decode(character_references.unescape(found[1]), validate=True))
    except (ValidationError, binascii.Error):
        return None
