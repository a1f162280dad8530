"""Looks at what mode `builtin` needs: that chat clients find this server, and find in it what they look for."""

from ipaddress import ip_address
from urllib.parse import urlsplit

import anyio
import httpx2

from nextcloud_mcp_server.auth.builtin.public_address import is_public
from nextcloud_mcp_server.doctor import Finding, Verdict
from nextcloud_mcp_server.settings import Settings

_HTTPS_PORT = 443


async def look_at_discovery(settings: Settings, pool: httpx2.AsyncClient) -> list[Finding]:
    """Check the address as hosted chat clients see it, and what they find there."""
    return [await _reachable(settings), await _metadata(settings, pool)]


async def _reachable(settings: Settings) -> Finding:
    parts = urlsplit(settings.server_url)
    if parts.scheme != "https" or (parts.port or _HTTPS_PORT) != _HTTPS_PORT:
        return Finding(
            Verdict.WARN,
            "hosted clients",
            f"{settings.server_url} is not https on port 443: Claude and ChatGPT connect there alone; programs on "
            "people's own computers do not mind.",
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
            "and may not reach it; programs on people's own computers do.",
        )
    if not any(ip_address(address).version == 4 for address in addresses):  # noqa: PLR2004 - an IP version
        return Finding(
            Verdict.WARN, "hosted clients", f"{parts.hostname} has no IPv4 address, which Claude needs."
        )
    return Finding(Verdict.OK, "hosted clients", f"{parts.hostname} has a public address")


async def _metadata(settings: Settings, pool: httpx2.AsyncClient) -> Finding:
    url = f"{settings.server_url}/.well-known/oauth-authorization-server"
    try:
        answer = await pool.get(url)
        issuer: object = answer.json().get("issuer")
    except (httpx2.HTTPError, ValueError, AttributeError):
        return Finding(
            Verdict.WARN,
            "discovery",
            f"{url} does not answer from here with what clients look for: start the server, and have the reverse "
            "proxy send every path to it, /.well-known/ and /mcp too.",
        )
    if issuer == settings.server_url:
        return Finding(Verdict.OK, "discovery", "clients find this server under exactly its name")
    return Finding(
        Verdict.FAIL,
        "discovery",
        f"the server there calls itself {issuer}: set NEXTCLOUD_MCP_SERVER_URL to the same address for it and here.",
    )
