"""Opens the pages of a started Login Flow v2 as a browser would, to see whether Nextcloud refuses this program there.

Nextcloud starts a flow for every program and refuses some on the page that a user sees next
(`core.login_flow_v2.allowed_user_agents`, core/Controller/ClientFlowLoginV2Controller.php, 32.0.1). Nothing in the
answers to the program says so: its polls are answered as if the user had not confirmed yet.

The second page reads the flow from Nextcloud's session, so the cookies of the first answer are sent back, once. This
is the only place that sends cookies to Nextcloud. There, a session takes precedence over a credential, so this
exchange has none, and nothing of it is kept.
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
#: What no reader of a page sees, and what differs each time: the tags, and the content of these elements.
_HIDDEN = frozenset({"head", "script", "style"})
_NAME = re.compile(r"/?[a-z0-9]*")
_SECONDS = 5.0
_MAX_BYTES = 262_144

REFUSED = (
    "Nextcloud lets only the programs on its list sign in, and this one is not on it. Ask its administrator to add "
    f"'/^{PROGRAM}/' to core.login_flow_v2.allowed_user_agents in Nextcloud's config.php."
)


class LoginPages:
    """Opens pages at the configured address only, without any credential.

    `public_url` is the address that browsers use, where it differs from `base`.
    """

    def __init__(
        self, pool: httpx2.AsyncClient, base: NextcloudUrl, *, public_url: NextcloudUrl | None
    ) -> None:
        self._pool, self._base = pool, base
        self._headers = {} if public_url is None else {"Host": public_url.netloc}

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
        # None: not even a credential in the address or of the pool.
        async with self._pool.stream("GET", f"{self._base}{path}", headers=headers, auth=None) as response:
            return await body.read(response, _MAX_BYTES, cut=True)


def _seen(page: httpx2.Response) -> str:
    """Return what a reader sees; an element that does not end hides the rest, as in a browser."""
    first, *pieces = page.text.split("<")
    seen, hides = [first], ""
    for piece in pieces:
        name, after = _parted(piece)
        if not hides and name in _HIDDEN:
            hides = name
        elif hides and name == f"/{hides}":
            hides = ""
        if not hides:
            seen.append(after)
    return " ".join(" ".join(seen).split())


def _parted(piece: str) -> tuple[str, str]:
    """Part what follows a "<" into the name of the tag, with the "/" of its end, and the text after the tag."""
    tag, ends, after = piece.partition(">")
    name = _NAME.match(tag) if ends else None
    return (name[0], after) if name else ("", piece)
