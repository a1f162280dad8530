"""Asking a person's Nextcloud which apps it has: its capabilities, and the menu where apps are looked for there."""

import logging
from collections.abc import Collection

from nextcloud_mcp_server.auth.accounts import Opened
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import CredentialRejected, NextcloudError, WrongAccount
from nextcloud_mcp_server.nextcloud import file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.protocol.availability import NOTHING, AppList, Apps, FetchApps
from nextcloud_mcp_server.tools.state import ToolServices

logger = logging.getLogger(__name__)


def apps_of(services: ToolServices, caller: Caller, opened: Opened, *, in_menu: Collection[str]) -> FetchApps:
    """Make what asks a person's Nextcloud for its apps; a refused credential is not used again.

    The menu is asked for when there are apps to look for `in_menu`.
    """

    async def fetch(known: Apps) -> Apps:
        account = opened.account
        if known.account != account.uid:
            # Of another account of the same person.
            known = NOTHING
        told = known.capabilities
        try:
            found = await account.capabilities.changed(told.etag)
            menu = await menu_of(account, known) if in_menu else None
        except (CredentialRejected, WrongAccount) as error:
            await stop(services, caller, opened, error)
            raise
        return Apps(AppList(found.apps, found.etag) if found else told, menu, account.uid)

    return fetch


async def stop(
    services: ToolServices, caller: Caller, opened: Opened, error: CredentialRejected | WrongAccount
) -> None:
    """Stop what Nextcloud refused; write down an answer for another person."""
    if isinstance(error, CredentialRejected):
        await services.accounts.reject(caller, opened)
    else:
        await services.audit.record(
            caller, action="look for apps", result="WrongAccount", detail="", request_id="", now=True
        )


async def menu_of(account: Account, known: Apps) -> AppList | None:
    """Ask for the apps in a person's menu. When it can't be had, what was known before still holds, if anything.

    Raises:
        CredentialRejected: Nextcloud did not take the credential.
        WrongAccount: The answer was for another person.
    """
    menu = known.menu
    try:
        found = await account.menu.changed(menu and menu.etag)
    except file_errors.OF_ACCESS:
        raise
    except NextcloudError as error:
        logger.info("the menu of a person is not known: %s", error)
        return menu
    return AppList(found.apps, found.etag) if found else menu
