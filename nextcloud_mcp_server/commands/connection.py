"""Connects the person's Nextcloud from the terminal, and lists and ends connections."""

import anyio

from nextcloud_mcp_server import app, core, logs
from nextcloud_mcp_server.auth.principal import personal_caller
from nextcloud_mcp_server.commands.console import Progress, open_browser, print_link, result, say
from nextcloud_mcp_server.settings import Settings
from nextcloud_mcp_server.storage.records import Account, Grant


def connect(settings: Settings, *, browser: bool) -> None:
    """Get the person's consent, and wait for it."""
    logs.set_up(settings.log_level)
    settings.require_nextcloud()
    anyio.run(_connect, settings, browser)


async def _connect(settings: Settings, browser: bool) -> None:  # noqa: FBT001  # anyio.run passes by place
    progress = Progress()
    url = str(core.nextcloud_url(settings))
    async with app.open_core(settings) as (opened, pending):
        try:
            show = open_browser if browser else print_link
            name = await core.connect(opened, pending, url, show=show, progress=progress)
        finally:
            progress.close()
    result(f"Connected as {name}. Your assistant can use this Nextcloud now.")


def list_grants(settings: Settings) -> None:
    """Print every connection."""
    logs.set_up(settings.log_level)
    for grant in anyio.run(_grants, settings):
        result(line(grant))


async def _grants(settings: Settings) -> list[Grant]:
    async with core.open_database(settings) as database:
        found = await database.grants.all()
    if not found:
        say("Nothing is connected. Connect with: nextcloud-mcp-server connect")
    return found


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
    """End every connection, or those with one Nextcloud, here and there."""
    logs.set_up(settings.log_level)
    anyio.run(_revoke, settings)


async def _revoke(settings: Settings) -> None:
    accounts: dict[str, Account] = {grant.account.id: grant.account for grant in await _grants(settings)}
    only = str(core.nextcloud_url(settings)) if settings.nextcloud_host else None
    for account in accounts.values():
        if only in (None, account.nextcloud_url):
            await _revoke_one(settings.model_copy(update={"nextcloud_host": account.nextcloud_url}), account)


async def _revoke_one(settings: Settings, account: Account) -> None:
    # With an app password in the settings the core would act on that and not on what was granted.
    own = settings.model_copy(update={"nextcloud_username": None, "nextcloud_app_password": None})
    async with app.open_core(own) as (opened, _):
        ended = await opened.accounts.disconnect(personal_caller(account.nextcloud_url, ""))
    rest = (
        ""
        if ended.at_nextcloud
        else " Nextcloud has not confirmed it yet: it is tried again at the next start."
    )
    result(f"Disconnected {account.uid} on {account.nextcloud_url}.{rest}")
