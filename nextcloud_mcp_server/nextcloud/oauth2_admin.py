"""The administrator's side of the core app `oauth2`, and what its security page says of us.

There is no API to list clients, so they are read from the page that an administrator looks at
(`apps/oauth2/lib/Settings/Admin.php`); the same page tells under which address we are seen
(`bruteforcesettings`). Both are read with care: a page may change with any version.
"""

import base64
import binascii
import html
import re
import shlex
import zlib
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TypeVar

import httpx2
from pydantic import Field, SecretStr, TypeAdapter, ValidationError

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import error_mapping
from nextcloud_mcp_server.nextcloud.connection_errors import unreachable
from nextcloud_mcp_server.nextcloud.credential import NextcloudCredential
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp, decoded
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
#: Sent by `PasswordConfirmationMiddleware`; from 34 on no app password passes it (nextcloud/server#61646).
_NOT_CONFIRMED = "X-NC-Auth-NotConfirmed"


class RegisteredClient(Answer):
    """A client as the page lists it; its secret is nowhere any more."""

    id: int
    name: str
    redirect_uri: str = Field(validation_alias="redirectUri")


class MadeClient(Answer):
    """A new client. This is the only time that its secret is told."""

    client_id: str = Field(validation_alias="clientId", min_length=1)
    client_secret: SecretStr = Field(validation_alias="clientSecret", min_length=1)
    redirect_uri: str = Field(validation_alias="redirectUri")


@dataclass(frozen=True, slots=True)
class SecurityPage:
    """What the page told; None for what it did not."""

    clients: tuple[RegisteredClient, ...] | None
    our_address: str | None
    allow_listed: bool | None


_ADDRESS = TypeAdapter(str)
_LISTED = TypeAdapter(bool)


class OAuth2Admin:
    """Registers a client in the name of an administrator."""

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
        """Read the page on security.

        Raises:
            Forbidden: The account is no administrator's.
            NextcloudError: Trouble on the way.
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
        """Make a client.

        Raises:
            Forbidden: The account is no administrator's, or this was an app password, which 34 and newer refuse here.
            NotFound: The app is switched off.
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
        """Put one address on the allow list; one that is there already stays there once or more.

        Raises:
            Forbidden: The account is no administrator's.
            NotFound: The app “Brute-force settings” is not there, or switched off.
            NextcloudError: Trouble on the way.
        """
        mask = ip_address(address).max_prefixlen
        await self._http.request(
            "POST", _ALLOW_LIST, json={"ip": address, "mask": mask}, sentences=_NOT_ALLOWED
        )


def allow_by_hand(address: str) -> str:
    """Write the command that puts one address on Nextcloud's allow list.

    Its key is made from the address, so that it replaces no entry of another one, and the command may be repeated.
    """
    number = zlib.crc32(ip_address(address).packed)
    network = f"{address}/{ip_address(address).max_prefixlen}"
    return f"occ config:app:set bruteForce whitelist_{number} --value={network}"


def by_hand(name: str, redirect_uri: str) -> str:
    """Say how an administrator registers a client without us, and what to do with it then."""
    return (
        f"have an administrator run 'occ oauth2:add-client {shlex.quote(name)} {redirect_uri}' on Nextcloud's machine, "
        f"or add a client “{name}” with the redirect URI {redirect_uri} under Administration settings → Security → "
        "OAuth 2.0 clients; then set NEXTCLOUD_OAUTH_CLIENT_ID and NEXTCLOUD_OAUTH_CLIENT_SECRET to what it shows. Or "
        "run this again and type the account's own password, which works without two-factor authentication."
    )


async def registered_redirect(
    pool: httpx2.AsyncClient, url: NextcloudUrl, client_id: str, *, public_url: NextcloudUrl | None = None
) -> str | None:
    """Ask where a client's answers go; None for an unknown client.

    Nextcloud sends anyone who asks for another response type than `code` straight back to the
    redirect URI on file. That needs no one signed in, and no failed token request, of which ten shut
    out every user behind our address.

    Raises:
        Unreachable: No answer came.
    """
    headers = {"Accept": "text/html"} | ({} if public_url is None else {"Host": public_url.netloc})
    query = {"client_id": client_id, "response_type": "none", "state": "doctor"}
    try:
        response = await pool.get(f"{url}{_AUTHORIZE}", params=query, headers=headers)
    except httpx2.HTTPError as error:
        raise (
            unreachable(error)
            if isinstance(error, httpx2.TransportError)
            else errors.Unreachable("Nextcloud's answer could not be read.")
        ) from None
    location = response.headers.get("Location", "")
    return location.partition("?error=unsupported_response_type")[0] if "?error=" in location else None


def _state(page: str, name: str, kind: TypeAdapter[_T]) -> _T | None:
    """Read one of the values that a page carries for its scripts."""
    found = re.search(rf'<input[^>]*\bid="initial-state-{re.escape(name)}"[^>]*\bvalue="([^"]*)"', page)
    if found is None:
        return None
    try:
        return kind.validate_json(base64.b64decode(html.unescape(found[1]), validate=True))
    except (ValidationError, binascii.Error):
        return None
