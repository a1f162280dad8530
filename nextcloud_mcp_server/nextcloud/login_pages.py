"""Opens the pages of a started Login Flow v2 as a browser would, to see whether Nextcloud refuses this program there.

Nextcloud starts a flow for every program and refuses some on the page that a user sees next
(`core.login_flow_v2.allowed_user_agents`, core/Controller/ClientFlowLoginV2Controller.php, 32.0.1). Nothing in the
answers to the program says so: its polls are answered as if the user had not confirmed yet.
"""

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

import anyio
import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import body
from nextcloud_mcp_server.nextcloud.program import PROGRAM
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

logger = logging.getLogger(__name__)

_FLOW = "/index.php/login/v2/flow"
#: What no reader of a page sees, and what differs each time.
_UNSEEN = re.compile(r"(?s)<(head|script|style)\b.*?</\1>|<[^>]*>")
_SECONDS = 5.0
_MAX_BYTES = 262_144

REFUSED = (
    "Nextcloud lets only the programs on its list sign in, and this one is not on it. Ask its administrator to add "
    f"'/^{PROGRAM}/' to core.login_flow_v2.allowed_user_agents in Nextcloud's config.php."
)


class LoginPages:
    """Opens pages at the configured address only; `headers` are sent with each request."""

    def __init__(self, pool: httpx2.AsyncClient, base: NextcloudUrl, headers: Mapping[str, str]) -> None:
        self._pool, self._base, self._headers = pool, base, headers

    async def check(self, login_url: SecretStr) -> None:
        """Raise if Nextcloud refuses this program; whatever else goes wrong is left to the user's browser.

        Raises:
          ProgramRefused: Nextcloud's administrator has to allow this program.
        """
        token = urlsplit(login_url.get_secret_value()).path.rpartition("/")[2]
        try:
            with anyio.fail_after(_SECONDS):
                landing = await self._get(f"{_FLOW}/{token}", {})
                cookies = [cookie.partition(";")[0] for cookie in landing.headers.get_list("Set-Cookie")]
                if landing.status_code != HTTPStatus.SEE_OTHER or not cookies:
                    return
                page = await self._get(_FLOW, {"Cookie": "; ".join(cookies)})
                if page.status_code != HTTPStatus.FORBIDDEN:
                    return
                # An ended flow has the same status and another sentence; both may be in any language.
                ended = await self._get(_FLOW, {})
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, errors.NextcloudError) as error:
            logger.debug("the sign-in page was not looked at: %s", type(error).__name__)
            return
        if ended.status_code == HTTPStatus.FORBIDDEN and _seen(page) != _seen(ended):
            raise errors.ProgramRefused(REFUSED)

    async def _get(self, path: str, headers: Mapping[str, str]) -> httpx2.Response:
        headers = {"Accept": "text/html", "Accept-Encoding": "identity", **self._headers, **headers}
        async with self._pool.stream("GET", f"{self._base}{path}", headers=headers) as response:
            return await body.read(response, _MAX_BYTES, cut=True)


def _seen(page: httpx2.Response) -> str:
    return " ".join(_UNSEEN.sub(" ", page.text).split())
