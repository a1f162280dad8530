"""Requests to authorization servers: bounded in time and size, never redirected to another host, and JSON alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import SplitResult, urlsplit

import anyio
import httpx2
from pydantic_core import from_json

from nextcloud_mcp_server.bridge.browser import UnsafeUrl, is_loopback
from nextcloud_mcp_server.bridge.certificate import distrusted
from nextcloud_mcp_server.errors import AuthorizationFailed

_SECONDS: Final = 30.0
_LARGEST: Final = 1 << 20
_REDIRECTS: Final = 3
_JSON: Final = {"Accept": "application/json"}

#: Opens the HTTP client for requests to authorization servers.
OpenHttp = Callable[[], httpx2.AsyncClient]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; `fields` are the members of its JSON object, None where it has none."""

    status: int
    fields: dict[str, object] | None

    @property
    def is_success(self) -> bool:
        """Whether the status says success."""
        return self.status // 100 == 2  # noqa: PLR2004 - the class of a status

    def text(self, name: str) -> str | None:
        """Return a member that is a non-empty text."""
        value = (self.fields or {}).get(name)
        return value if isinstance(value, str) and value else None


class Network:
    """Sends requests for one MCP server; `server_url` decides whether this computer itself may be asked."""

    def __init__(self, server_url: str, open_http: OpenHttp) -> None:
        self._is_local = is_loopback(urlsplit(server_url).hostname)
        self._open_http = open_http

    def check(self, url: str, what: str) -> str:
        """Return a URL that tokens and codes may be sent to.

        Another server may not lead this client to a program on the user's own computer.

        Raises:
          UnsafeUrl: It is neither https nor, for a server on this computer, http on this computer.
        """
        try:
            parts = urlsplit(url)
            is_safe = _is_encrypted(parts) or (
                parts.scheme == "http" and self._is_local and is_loopback(parts.hostname)
            )
        except ValueError:
            is_safe = False
        if not is_safe:
            raise UnsafeUrl(f"{what} must be an https URL; nothing was sent there.")
        return url

    async def get(self, url: str, what: str) -> Reply:
        """Fetch JSON, and follow redirects on the same host."""
        for _ in range(_REDIRECTS):
            response, reply = await self._send(
                httpx2.Request("GET", self.check(url, what), headers=_JSON), what
            )
            onward = response.next_request
            if onward is None or _origin(onward.url) != _origin(response.url):
                return reply
            url = str(onward.url)
        return Reply(508, None)

    async def post_form(
        self, url: str, form: Mapping[str, str], what: str, *, auth: tuple[str, str] | None = None
    ) -> Reply:
        """Send a form; `auth` is the name and password of HTTP's basic authentication."""
        request = httpx2.Request("POST", self.check(url, what), data=dict(form), headers=_JSON)
        if auth is not None:
            request = next(httpx2.BasicAuth(*auth).auth_flow(request))
        return (await self._send(request, what))[1]

    async def post_json(self, url: str, value: object, what: str) -> Reply:
        """Send JSON."""
        return (
            await self._send(httpx2.Request("POST", self.check(url, what), json=value, headers=_JSON), what)
        )[1]

    async def _send(self, request: httpx2.Request, what: str) -> tuple[httpx2.Response, Reply]:
        host = request.url.host
        try:
            with anyio.fail_after(_SECONDS):
                async with self._open_http() as http:
                    response = await http.send(request, stream=True, auth=None, follow_redirects=False)
                    try:
                        body = await _body(response)
                    finally:
                        await response.aclose()
        except TimeoutError:
            raise AuthorizationFailed(f"{what} at {host} did not answer in time; try again later.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            if (certificate := distrusted(error)) is not None:
                raise AuthorizationFailed(f"The certificate of {host} {certificate}") from None
            # The library's text may hold the URL.
            raise AuthorizationFailed(f"{what} at {host} cannot be reached; try again later.") from None
        if body is None:
            raise AuthorizationFailed(f"{what} at {host} sends more than this client reads.")
        return response, Reply(response.status_code, _members(body))


async def _body(response: httpx2.Response) -> bytes | None:
    """Read the body; None if it is too large."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _LARGEST:
            return None
    return bytes(body)


def _members(body: bytes) -> dict[str, object] | None:
    try:
        value: object = from_json(body)
    except ValueError:
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _is_encrypted(parts: SplitResult) -> bool:
    return parts.scheme == "https" and bool(parts.hostname) and parts.username is None


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
