"""Runs the sandbox Nextcloud by itself, so that operators can rehearse a server for many users."""

import anyio

from nextcloud_mcp_server.commands.console import say
from nextcloud_mcp_server.commands.serve import claim_port
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.profile import ProfileName
from nextcloud_mcp_server.sandbox.serve import LOOPBACK, serving


def serve_sandbox(port: int, version: ProfileName) -> None:
    """Serve a sandbox Nextcloud on loopback until the operator stops it.

    Raises:
      ConfigurationError: Another program listens at the port.
    """
    anyio.run(_serve, claim_port(LOOPBACK, port), version)


async def _serve(port: int, version: ProfileName) -> None:
    async with serving(Sandbox.demo(version=version), port=port) as url:
        say(greeting(url, version))
        await anyio.sleep_forever()


def greeting(url: str, version: ProfileName) -> str:
    """Return the text at the start: the address, the accounts, and what ends with the sandbox."""
    return (
        f"Sandbox Nextcloud {version}, listening on {url}\n"
        "Accounts: alice and bob, and the administrator admin. The password of each is its name.\n"
        "Everything is kept in memory: accounts, connections and the registered server end with this program."
    )
