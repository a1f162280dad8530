"""The post-restore check of a database: ends tokens and sign-ins, and slowly checks the grants."""

from collections.abc import Awaitable, Callable

import anyio

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.auth.broker import Broker
from nextcloud_mcp_server.auth.consent.nextcloud_oauth2 import NextcloudOAuth2
from nextcloud_mcp_server.commands.console import Progress, result, say
from nextcloud_mcp_server.errors import NextcloudError
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.server.modes.multi_user import nextcloud_oauth2
from nextcloud_mcp_server.server.services import (
    Overrides,
    nextcloud_url_of,
    open_database,
    open_pool_of,
    public_url_of,
)
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.records import Credential, Grant

#: After ten failed token refreshes from one address in half an hour Nextcloud rejects valid ones as well.
MOST_FAILURES = 4
PAUSE_SECONDS = 1_800
#: After this many consecutive errors, none can be checked at present.
MAX_FAILURES = 3

Sleep = Callable[[float], Awaitable[None]]


def restored(settings: Settings, *, allow_listed: bool, sleep: Sleep = anyio.sleep) -> None:
    """End all tokens and sign-ins, then refresh each access to Nextcloud once.

    `allow_listed` says that Nextcloud counts no failures of this computer's address.
    """
    logs.set_up(settings.log_level, settings.log_format)
    anyio.run(_restored, settings, allow_listed, sleep)


async def _restored(settings: Settings, allow_listed: bool, sleep: Sleep) -> None:  # noqa: FBT001 - anyio.run passes by place
    async with open_database(settings) as database:
        forgotten = await database.restored.forget()
        grants = {grant.credential.id: grant for grant in await database.grants.all()}
    result(
        f"Sign-ins that were ended: {forgotten.clients} of apps, {forgotten.browsers} of browsers. Users sign in once "
        "more, and what they allowed stays."
    )
    if not settings.multi_user:
        # Without MODE, as in a new terminal, the rest would silently be left out.
        say(
            "MODE=personal has nothing to renew. For a server of many users, run this again with the environment that "
            "it has."
        )
    renewable = [one for one in grants.values() if _is_renewable(settings, one.credential)]
    if not renewable:
        return
    say(
        f"Accesses to Nextcloud that are renewed now, one after the other: {len(renewable)}. The server may be started "
        "meanwhile. Those that were renewed after the backup no longer work, and their users are asked again. You may "
        "stop this at any time: the server tries the others when they are used."
    )
    await _renew(settings, renewable, None if allow_listed else sleep)


def _is_renewable(settings: Settings, credential: Credential) -> bool:
    """Tell whether a token refresh is useful; a token rejected before is not sent again."""
    ours = settings.multi_user and settings.grant_provider == NextcloudOAuth2.name
    return ours and credential.provider == NextcloudOAuth2.name and not credential.needs_reauth


async def _renew(settings: Settings, grants: list[Grant], sleep: Sleep | None) -> None:
    progress, kept, dead, failures = Progress(), 0, 0, 0
    overrides = Overrides()
    async with open_database(settings) as database, open_pool_of(settings, overrides) as pool:
        nextcloud = Nextcloud(nextcloud_url_of(settings), pool, public_url=public_url_of(settings))
        provider = nextcloud_oauth2(settings, nextcloud, clock=overrides.clock)
        broker = Broker(database, {provider.name: provider}, clock=overrides.clock)
        for number, grant in enumerate(grants, 1):
            progress(f"{number} of {len(grants)}; {dead} have to be asked again")
            try:
                now = await broker.renew(grant)
            except NextcloudError as error:
                say(f"{grant.account.uid}: {error}")
                failures += 1
                if failures == MAX_FAILURES:
                    break
                continue
            failures = 0
            if now is None or not now.needs_reauth:
                kept += 1
                continue
            dead += 1
            if sleep is not None and dead % MOST_FAILURES == 0 and number < len(grants):
                progress("A pause of half an hour, so that Nextcloud does not shut this server out")
                await sleep(PAUSE_SECONDS)
    progress.close()
    result(_summary(kept, dead, left=len(grants) - kept - dead))


def _summary(kept: int, dead: int, *, left: int) -> str:
    summary = f"Accesses that work and were kept: {kept} of {kept + dead + left}. Users who are asked again: {dead}."
    if not left:
        return summary
    return f"{summary} Looked at only when they are used, because that was not possible now: {left}."
