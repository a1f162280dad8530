"""Login Flow v2: a user signs in with a browser, and this server receives an app password."""

import logging
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from pydantic import Field, SecretStr, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.decoding import decoded
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.sanitize import escaped_start
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

logger = logging.getLogger(__name__)

# This form works with and without pretty URLs.
_START = "/index.php/login/v2"
_POLL = "/index.php/login/v2/poll"
#: Nextcloud cannot switch the flow off, but a proxy in front of it can refuse it.
_NO_FLOW = frozenset({401, 403, 404, 405})


@dataclass(frozen=True, slots=True)
class StartedFlow:
    """A started flow. Its login URL or its poll token alone is enough to take part in it."""

    login_url: SecretStr
    poll_token: SecretStr


class GrantedFlow(Answer):
    """The result of a completed flow, which Nextcloud returns once."""

    login_name: str = Field(validation_alias="loginName", min_length=1)
    app_password: SecretStr = Field(validation_alias="appPassword", min_length=1)


class _Poll(Answer):
    token: SecretStr = Field(min_length=1)


class _Started(Answer):
    poll: _Poll
    login: SecretStr


class LoginFlowClient:
    """Starts and polls flows, at the configured address only.

    Nextcloud's responses contain URLs with the host that Nextcloud assumes for itself. Behind a proxy that is often
    wrong, and a request to such a URL would send tokens to any host that a response names.
    """

    def __init__(
        self, http: NextcloudHttp, *, public_url: NextcloudUrl, warned: set[str] | None = None
    ) -> None:
        self._http = http
        self._warned = set[str]() if warned is None else warned
        self._public_url = public_url

    async def start(self) -> StartedFlow:
        """Start a flow; its login page is at the address that browsers use.

        Raises:
          LoginFlowOff: The address of the flow is refused, probably by a proxy.
          ServerFault: Nextcloud assumes that it is reached without TLS, or returned no flow.
        """
        response = await self._http.request("POST", _START, answers=_NO_FLOW)
        if response.status_code in _NO_FLOW:
            raise errors.LoginFlowOff(
                f"Nextcloud's sign-in for programs (Login Flow v2) is blocked: {_START} answers "
                f"{response.status_code}. Ask the administrator to let {_START} and what is below it through the "
                "proxy in front of Nextcloud."
            )
        started = decoded(response, TypeAdapter(_Started))
        login = urlsplit(started.login.get_secret_value())
        if self._http.base.scheme == "https" and login.scheme == "http":
            # The following pages would use plain http, and Nextcloud's own content security policy would block their
            # forms.
            raise errors.ServerFault(
                "Nextcloud believes it is reached by http though it is by https, so signing in would fail. "
                "Ask the administrator to set overwriteprotocol to 'https', and trusted_proxies, in "
                "Nextcloud's config.php."
            )
        if "/login/v2/flow/" not in login.path:
            raise errors.ServerFault("Nextcloud answered no page to sign in at. Try again later.")
        self._warn_of(login.hostname or "")
        url = self._public_url.rebuild(started.login.get_secret_value())
        return StartedFlow(login_url=SecretStr(url), poll_token=started.poll.token)

    def _warn_of(self, host: str) -> None:
        """Log once that Nextcloud assumes another host for itself; users are not sent there."""
        if host in {self._public_url.host, self._http.base.host} | self._warned:
            return
        self._warned.add(host)
        logger.warning(
            "Nextcloud answers a sign-in page at %s, but is set as %s, where people are sent instead. If signing in "
            "fails, set NEXTCLOUD_PUBLIC_URL, or overwritehost in Nextcloud's config.php.",
            escaped_start(host, 100),
            self._public_url.host,
        )

    async def poll(self, poll_token: SecretStr) -> GrantedFlow | None:
        """Poll once; return None while the flow is pending, and forever after its end.

        Nextcloud returns the result a single time: store it before anything else.
        """
        try:
            response = await self._http.request(
                "POST",
                _POLL,
                content=urlencode({"token": poll_token.get_secret_value()}),
                headers={"Content-Type": "application/x-www-form-urlencoded"},
            )
        except errors.NotFound:
            return None
        return decoded(response, TypeAdapter(GrantedFlow))
