"""Connects the person's Nextcloud from the terminal, and lists and ends connections."""

import anyio

from nextcloud_mcp_server import app, logs
from nextcloud_mcp_server.commands.console import Progress, open_browser, print_link, result, say
from nextcloud_mcp_server.settings import Settings
from nextcloud_mcp_server.storage.records import Grant


def connect(settings: Settings, *, browser: bool) -> None:
    """Get the person's consent, and wait for it."""
    logs.set_up(settings.log_level)
    settings.require_nextcloud()
    anyio.run(_connect, settings, browser)


async def _connect(settings: Settings, browser: bool) -> None:  # noqa: FBT001  # anyio.run passes by place
    progress = Progress()
    async with app.open_core(settings) as core:
        try:
            name = await core.provisioning.connect(open_browser if browser else print_link, progress)
        finally:
            progress.close()
    result(f"Connected as {name}. Your assistant can use this Nextcloud now.")


def list_grants(settings: Settings) -> None:
    """Print every connection."""
    logs.set_up(settings.log_level)
    anyio.run(_list, settings)


async def _list(settings: Settings) -> None:
    async with app.open_core(settings) as core:
        found = await core.database.grants.all()
    if not found:
        say("Nothing is connected. Connect with: nextcloud-mcp-server connect")
    for grant in found:
        result(line(grant))


def line(grant: Grant) -> str:
    """Describe one connection in a line."""
    account, permission = grant.account, grant.permission
    parts = [f"{account.uid} on {account.nextcloud_url}"]
    if permission is not None:
        used = f"{permission.last_used_at:%Y-%m-%d %H:%M}" if permission.last_used_at else "never"
        parts += [permission.client_name, " ".join(sorted(permission.scopes)), f"last used {used}"]
    if grant.credential.needs_reauth:
        parts.append("asks again at the next call")
    return " · ".join(parts)


def revoke_grants(settings: Settings) -> None:
    """End every connection, here and at Nextcloud."""
    logs.set_up(settings.log_level)
    anyio.run(_revoke, settings)


async def _revoke(settings: Settings) -> None:
    async with app.open_core(settings) as core:
        accounts = {grant.account.principal: grant.account for grant in await core.database.grants.all()}
        if not accounts:
            say("Nothing is connected.")
        for principal, account in accounts.items():
            confirmed = await core.provisioning.disconnect(principal)
            rest = (
                ""
                if confirmed
                else " Nextcloud has not confirmed it yet: it is tried again at the next start."
            )
            result(f"Disconnected {account.uid} on {account.nextcloud_url}.{rest}")
