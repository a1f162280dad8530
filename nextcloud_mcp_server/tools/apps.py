"""Fetches the apps of a user's Nextcloud, from the capabilities and from the app menu."""

import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from nextcloud_mcp_server.auth.accounts import Opened
from nextcloud_mcp_server.auth.principal import Caller
from nextcloud_mcp_server.errors import CredentialRejected, NextcloudError, WrongAccount
from nextcloud_mcp_server.nextcloud import file_errors
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.protocol.availability import NOTHING, AppList, Apps, FetchApps
from nextcloud_mcp_server.tools.state import ToolServices

logger = logging.getLogger(__name__)


#: Called with the error when Nextcloud refuses a credential, or answers for another user.
Refused = Callable[[CredentialRejected | WrongAccount], Awaitable[None]]


def apps_of(services: ToolServices, caller: Caller, opened: Opened, *, in_menu: Collection[str]) -> FetchApps:
    """Return the function that fetches a user's apps; it stops a rejected credential.

    The menu is fetched when `in_menu` names apps.
    """
    return apps_from(opened, partial(stop, services, caller, opened), in_menu=in_menu)


def apps_from(opened: Opened, refused: Refused, *, in_menu: Collection[str]) -> FetchApps:
    """Return the function that fetches the apps of an account; it calls `refused` for a rejected credential."""

    async def fetch(known: Apps) -> Apps:
        account = opened.account
        if known.account != account.uid:
            # The known apps are those of another account of the same user.
            known = NOTHING
        capabilities = known.capabilities
        try:
            found = await account.capabilities.changed(capabilities.etag)
            menu = await menu_of(account, known) if in_menu else None
        except (CredentialRejected, WrongAccount) as error:
            await refused(error)
            raise
        return Apps(AppList(found.apps, found.etag) if found else capabilities, menu, account.uid)

    return fetch


async def stop(
    services: ToolServices, caller: Caller, opened: Opened, error: CredentialRejected | WrongAccount
) -> None:
    """Stop the use of a rejected credential; write an audit entry for a response for another user."""
    if isinstance(error, CredentialRejected):
        await services.accounts.reject(caller, opened)
    else:
        await services.audit.record(
            caller, action="look for apps", result="WrongAccount", detail="", request_id="", now=True
        )


async def menu_of(account: Account, known: Apps) -> AppList | None:
    """Fetch the apps in a user's menu; on an error return the list known before, if any.

    Raises:
      CredentialRejected: Nextcloud did not accept the credential.
      WrongAccount: The response was for another user.
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
