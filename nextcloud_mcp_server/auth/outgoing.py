"""All requests to an identity provider: no cookies, no other origins, limits on time and size."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote_plus, urljoin, urlsplit

import anyio
import httpx2
from pydantic import SecretStr

from nextcloud_mcp_server.auth import strict_json
from nextcloud_mcp_server.errors import IssuerUnavailable

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_HOPS = 2
_TOO_MANY_REQUESTS = 429
_SERVER_FAULT = 500


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """An answer with a status below 500; `body` is None when it is no (strict) JSON."""

    status: int
    body: Any

    @property
    def fields(self) -> Mapping[str, Any]:
        """The members of the body; empty when it is no object."""
        body: object = self.body
        return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


class Outgoing:
    """Sends requests to token endpoints, key sets and the like.

    `pool` comes from `nextcloud.http.open_pool`.
    """

    def __init__(self, pool: httpx2.AsyncClient) -> None:
        self._pool = pool

    async def json(
        self,
        method: str,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        basic: tuple[str, SecretStr] | None = None,
        bearer: SecretStr | None = None,
        max_bytes: int = 262_144,
        seconds: float = 10.0,
    ) -> JsonAnswer:
        """Send one request and read its whole answer; a 4xx is an answer too.

        `basic` is a client's id and secret, which RFC 6749 §2.3.1 has encoded like a form.

        Raises:
            IssuerUnavailable: No connection, too slow, too large, a 429 or 5xx, or a redirect that
                `_followed` refuses.
        """
        # Compressed answers could grow without end, and these are small.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer.get_secret_value()}"
        auth = None if basic is None else httpx2.BasicAuth(*map(quote_plus, _opened(basic)))
        may_follow = method == "GET" and basic is None and bearer is None
        try:
            # One limit on the whole request: a server that sends one byte a second never exceeds the other
            # limits.
            with anyio.fail_after(seconds):
                for hop in range(_MOST_HOPS + 1):
                    request = self._pool.build_request(method, url, headers=headers, data=form)
                    response = await self._pool.send(request, stream=True, auth=auth, follow_redirects=False)
                    try:
                        if response.status_code not in _REDIRECTS:
                            return await _answer(response, max_bytes)
                        url = _followed(response, allowed=may_follow and hop < _MOST_HOPS)
                    finally:
                        await response.aclose()
                raise AssertionError  # pragma: no cover - the last hop may not be followed
        except TimeoutError:
            raise IssuerUnavailable("The identity provider did not answer in time.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError):
            # The messages of these exceptions may contain URLs with secrets.
            raise IssuerUnavailable("The identity provider cannot be reached.") from None


def _opened(basic: tuple[str, SecretStr]) -> tuple[str, str]:
    return basic[0], basic[1].get_secret_value()


async def _answer(response: httpx2.Response, max_bytes: int) -> JsonAnswer:
    status = response.status_code
    if status == _TOO_MANY_REQUESTS or status >= _SERVER_FAULT:
        raise IssuerUnavailable(f"The identity provider answered with status {status}.", status=status)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise IssuerUnavailable("The identity provider answered in an encoding that was not asked for.")
    body = bytearray()
    async for chunk in cast("httpx2.AsyncByteStream", response.stream):
        body += chunk
        if len(body) > max_bytes:
            raise IssuerUnavailable("The identity provider's answer is larger than this server reads.")
    try:
        return JsonAnswer(status, strict_json.read(bytes(body)))
    except ValueError:
        return JsonAnswer(status, None)


def _followed(response: httpx2.Response, *, allowed: bool) -> str:
    """Return the target of a redirect: the same URL with a trailing slash, or one below /index.php.

    Nextcloud answers /.well-known/openid-configuration with the latter. Any other redirect is refused: it would
    let one forged answer of the identity provider make this server request any address of the internal network.
    """
    address = str(response.request.url)
    here, there = urlsplit(address), urlsplit(urljoin(address, response.headers.get("Location", "")))
    same_origin = (here.scheme, here.netloc) == (there.scheme, there.netloc)
    same_place = there.query == here.query and (
        there.path == f"{here.path}/"
        or (there.path.replace("/index.php/", "/", 1) == here.path and there.path != here.path)
    )
    if not (allowed and same_origin and same_place):
        raise IssuerUnavailable("The identity provider redirects elsewhere instead of answering.")
    return there.geturl()
