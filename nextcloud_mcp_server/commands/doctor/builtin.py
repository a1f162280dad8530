"""Checks what mode `builtin` requires: clients can reach this server and discover its endpoints."""

from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

import anyio
import httpx2

from nextcloud_mcp_server.auth.builtin.metadata import server_metadata
from nextcloud_mcp_server.auth.builtin.public_address import is_public
from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict, why_silent
from nextcloud_mcp_server.nextcloud import body
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.web.metadata import Resource

_HTTPS_PORT = 443
#: The values that clients compare byte by byte, and the endpoints that they use.
_COMPARED = ("issuer", "authorization_endpoint", "token_endpoint")
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_PROXY = "have the reverse proxy send every path to this server, /.well-known/ and /mcp too."


async def look_at_discovery(settings: Settings, pool: httpx2.AsyncClient) -> list[Finding]:
    """Check the public address as hosted clients see it, and the discovery documents there."""
    return [
        await _reachable(settings),
        await _discovery(settings, pool),
        await _challenge(settings, pool),
    ]


async def _reachable(settings: Settings) -> Finding:
    parts = urlsplit(settings.server_url)
    if parts.scheme != "https" or (parts.port or _HTTPS_PORT) != _HTTPS_PORT:
        return Finding(
            Verdict.WARN,
            "hosted clients",
            f"{settings.server_url} is not https on port 443: Claude and ChatGPT connect there alone; programs on "
            "users' own computers do not mind.",
        )
    try:
        found = await anyio.getaddrinfo(parts.hostname, _HTTPS_PORT)
    except OSError:
        return Finding(
            Verdict.FAIL, "hosted clients", f"the name {parts.hostname} is not known: add it to your DNS."
        )
    addresses = {str(address[0]) for *_, address in found}
    if not all(map(is_public, addresses)):
        return Finding(
            Verdict.WARN,
            "hosted clients",
            f"{parts.hostname} has an address of a private network here: Claude and ChatGPT come from the internet "
            "and may not reach it; programs on users' own computers do.",
        )
    if not any(ip_address(address).version == 4 for address in addresses):  # noqa: PLR2004 - an IP version
        return Finding(
            Verdict.WARN, "hosted clients", f"{parts.hostname} has no IPv4 address, which Claude needs."
        )
    return Finding(Verdict.OK, "hosted clients", f"{parts.hostname} has a public address")


async def _discovery(settings: Settings, pool: httpx2.AsyncClient) -> Finding:
    """Fetch the discovery documents from each location that some client tries first."""
    ours = server_metadata(settings.server_url)
    issuer = {name: ours[name] for name in _COMPARED}
    wanted: dict[str, dict[str, object]] = {
        f"{settings.server_url}/.well-known/oauth-authorization-server": issuer,
        f"{settings.server_url}/.well-known/openid-configuration": issuer,
        _resource(settings).metadata_url: {
            "resource": settings.resource_url,
            "authorization_servers": [settings.server_url],
        },
    }
    for url, fields in wanted.items():
        try:
            answer = (await body.look(pool, "GET", url)).json()
            found = {name: answer.get(name) for name in fields}
        except (httpx2.HTTPError, ValueError, AttributeError) as error:
            silent = (
                f"{url} does not answer from here with what clients look for: start the server, and {_PROXY}"
            )
            return Finding(Verdict.WARN, "discovery", why_silent(error, settings.server_url, silent))
        for name, value in fields.items():
            if found[name] != value:
                return Finding(
                    Verdict.FAIL,
                    "discovery",
                    f"{url} says that `{name}` is {found[name]!r}, and it is {value!r} here: set "
                    "NEXTCLOUD_MCP_SERVER_URL to the same address for the server and for this command.",
                )
    return Finding(Verdict.OK, "discovery", "clients find this server under exactly its name")


async def _challenge(settings: Settings, pool: httpx2.AsyncClient) -> Finding:
    """Call without a token: from the response clients learn that and where they have to sign in."""
    try:
        answer = await body.look(pool, "POST", settings.resource_url, json=_PING)
    except httpx2.HTTPError as error:
        silent = f"{settings.resource_url} does not answer from here: {_PROXY}"
        return Finding(Verdict.WARN, "first call", why_silent(error, settings.server_url, silent))
    if answer.status_code != HTTPStatus.UNAUTHORIZED:
        return Finding(
            Verdict.FAIL,
            "first call",
            f"{settings.resource_url} answers a call without a token with {answer.status_code} in place of 401: "
            f"{_PROXY}",
        )
    if _resource(settings).metadata_url not in answer.headers.get("WWW-Authenticate", ""):
        return Finding(
            Verdict.FAIL,
            "first call",
            "the refusal of a call without a token does not say where to sign in: have the reverse proxy pass the "
            "header WWW-Authenticate on as it is.",
        )
    return Finding(Verdict.OK, "first call", "clients are told where to sign in")


def _resource(settings: Settings) -> Resource:
    return Resource(settings.resource_url, (settings.server_url,), ())
