"""Connects the user's Nextcloud from the terminal."""

from collections.abc import Callable

import anyio

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.auth.principal import Caller, personal_caller
from nextcloud_mcp_server.auth.scopes import is_writing
from nextcloud_mcp_server.commands.console import Progress, open_browser, print_link, program, result, say
from nextcloud_mcp_server.errors import ConfigurationError, ConsentDeclined, ElicitationRequired
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server.app import loopback_pages_of, say_why_no_page
from nextcloud_mcp_server.server.modes.personal import Personal
from nextcloud_mcp_server.server.opening import running_services
from nextcloud_mcp_server.server.services import (
    Overrides,
    Services,
    nextcloud_url_of,
    open_pool_of,
)
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.records import ElicitationState

_CONNECT_POLL_SECONDS = 1.0
_ENDINGS = {ElicitationState.DECLINED: "you declined."}


def connect(settings: Settings, *, browser: bool) -> None:
    """Ask for the user's consent, and wait for it.

    Raises:
      ConfigurationError: The server is multi-user; its users are asked by their clients.
    """
    if settings.multi_user:
        # A login flow does not identify a user of this server, so its grant would belong to none.
        raise ConfigurationError(
            f"connect is for one user: with MODE={settings.mode} each user adds {settings.resource_url} to a chat "
            "client, which then asks for access."
        )
    logs.set_up(settings.log_level, settings.log_format)
    anyio.run(_connect, settings, browser)


async def _connect(settings: Settings, browser: bool) -> None:  # noqa: FBT001 - anyio.run passes by place
    url = str(nextcloud_url_of(settings))
    await _reach(settings)
    progress, pages = Progress(), loopback_pages_of(settings)
    if pages is None:
        say_why_no_page(settings)
    async with running_services(Personal.over_stdio(settings, pages), pages=pages) as (opened, pending):
        try:
            name = await connect_account(
                opened, pending, url, show=open_browser if browser else print_link, progress=progress
            )
        finally:
            progress.close()
    result(f"Connected as {name} on {url}. Your assistant can use this Nextcloud now.")
    say(f"To tell a client about it: {program()} config claude-code --nextcloud {url} (or another client)")


async def _reach(settings: Settings) -> None:
    """Check that a Nextcloud answers before the database and its key are created, which would be left behind.

    Raises:
      NextcloudError: None answers at the address.
    """
    async with open_pool_of(settings, Overrides()) as pool:
        await Nextcloud(nextcloud_url_of(settings), pool).server_info()


async def connect_account(
    services: Services,
    pending: Pending,
    url: str,
    *,
    show: Callable[[str], None],
    progress: Callable[[str], None],
    seconds: int = 600,
) -> str:
    """Lead the user through one consent request from the terminal; return the account's name.

    Raises:
      ConsentDeclined: The consent request ended without access, or took too long; its text says how.
      NextcloudMcpError: It could not be started.
    """
    caller = personal_caller(url, "The command line")
    # The page presets what is asked for, and no change may be preset that the user did not ask for.
    wanted = frozenset(scope for scope in services.bound if not is_writing(scope))
    try:
        await services.accounts.open(caller, wanted)
    except ElicitationRequired as need:
        show(need.url)
        for waited in range(seconds):
            progress(f"Waiting for you to confirm in the browser… {waited} s")
            if await pending.wait(need.elicitation_id, seconds=_CONNECT_POLL_SECONDS):
                break
        await _check_consent_request(services, need.elicitation_id, caller)
    known = await services.accounts.connection(caller)
    return known.display_name or known.account_name


async def _check_consent_request(services: Services, elicitation_id: str, caller: Caller) -> None:
    """Stop after a consent request that gave nothing: the next step would start another one without the user."""
    consent_request = (
        await services.provisioning.find(elicitation_id, caller) if services.provisioning else None
    )
    if consent_request is None or consent_request.state is ElicitationState.COMPLETE:
        return
    reason = consent_request.error or _ENDINGS.get(consent_request.state, "The link was not used in time.")
    raise ConsentDeclined(f"Not connected: {reason}")
