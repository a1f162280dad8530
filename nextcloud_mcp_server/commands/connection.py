"""Connects the user's Nextcloud from the terminal, and lists and ends connections."""

from collections.abc import Callable

import anyio

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.auth.principal import Caller, personal_caller
from nextcloud_mcp_server.commands.console import Progress, open_browser, print_link, program, result, say
from nextcloud_mcp_server.errors import ConfigurationError, ConsentDeclined, ElicitationRequired
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.protocol.pending import Pending
from nextcloud_mcp_server.server.database_file import schema_of
from nextcloud_mcp_server.server.modes.personal import Personal
from nextcloud_mcp_server.server.opening import running_services
from nextcloud_mcp_server.server.services import (
    Overrides,
    Services,
    nextcloud_url_of,
    now,
    open_database,
    open_pool_of,
)
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.records import AuditEntry, ElicitationState, Grant, Principal

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
            f"connect is for one person: with MODE={settings.mode} people add {settings.resource_url} to their "
            "assistant, and it asks them."
        )
    logs.set_up(settings.log_level)
    anyio.run(_connect, settings, browser)


async def _connect(settings: Settings, browser: bool) -> None:  # noqa: FBT001 - anyio.run passes by place
    url = str(nextcloud_url_of(settings))
    await _reach(settings)
    progress = Progress()
    async with running_services(Personal(settings)) as (
        opened,
        pending,
    ):
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
    try:
        await services.accounts.open(caller, services.bound)
    except ElicitationRequired as need:
        show(need.url)
        for waited in range(seconds):
            progress(f"Waiting for you to confirm in the browser… {waited} s")
            if await pending.wait(need.elicitation_id, seconds=_CONNECT_POLL_SECONDS):
                break
        await _check_consent_request(services, need.elicitation_id, caller)
        await services.accounts.open(caller, services.bound)
    known = await services.accounts.connection(caller)
    return known.display_name or known.account_name


async def _check_consent_request(services: Services, elicitation_id: str, caller: Caller) -> None:
    """Stop after a consent request that gave nothing: the next step would start another one without the user."""
    consent_request = (
        await services.provisioning.find(elicitation_id, caller.principal) if services.provisioning else None
    )
    if consent_request is None or consent_request.state is ElicitationState.COMPLETE:
        return
    reason = consent_request.error or _ENDINGS.get(consent_request.state, "The link was not used in time.")
    raise ConsentDeclined(f"Not connected: {reason}")


def list_grants(settings: Settings) -> None:
    """Print every connection."""
    logs.set_up(settings.log_level)
    found = anyio.run(_all, settings)
    if not found and settings.multi_user:
        say(
            f"No user is connected yet. People add {settings.resource_url} to their assistant, and it asks them."
        )
    elif not found and settings.sandbox:
        say("Nothing is connected. A server with --sandbox asks for it when a client calls a tool.")
    elif not found:
        say(
            f"Nothing is connected. Connect with: {program()} connect --nextcloud "
            f"{settings.nextcloud_host or 'https://cloud.example.org'}"
        )
    for grant in found:
        result(line(grant))


async def _all(settings: Settings) -> list[Grant]:
    if await schema_of(settings) is None:
        # Opening it would make the database, and the key.
        return []
    async with open_database(settings) as database:
        return await database.grants.all()


def line(grant: Grant) -> str:
    """Return a line that describes one connection."""
    account, permission = grant.account, grant.permission
    parts = [f"{account.uid} on {account.nextcloud_url}"]
    if permission is not None:
        used = f"{permission.last_used_at:%Y-%m-%d %H:%M} UTC" if permission.last_used_at else "never"
        parts += [permission.client_name, " ".join(sorted(permission.scopes)), f"last used {used}"]
    if grant.credential.needs_reauth:
        parts.append("asks again at the next call")
    return " · ".join(parts)


def revoke_grants(settings: Settings, person: str | None) -> None:
    """End the connection, here and at Nextcloud; on a multi-user server that of `person`, a user id.

    Raises:
      ConfigurationError: No user is named, or no user of that name is connected.
    """
    if settings.multi_user and person is None:
        raise ConfigurationError(
            "grants revoke needs a name here: add --person and a Nextcloud user id, as 'grants list' shows them. "
            f"People end their own at {settings.server_url}/account; docs/operate.md says how to end all at once."
        )
    if not settings.multi_user and person is not None:
        raise ConfigurationError("--person is for servers of many people: leave it out.")
    logs.set_up(settings.log_level)
    if person is None:
        anyio.run(_revoke, settings)
    else:
        anyio.run(_revoke_person, settings, person)


async def _revoke_person(settings: Settings, person: str) -> None:
    async with open_database(settings) as database:
        found = {
            grant.account.principal for grant in await database.grants.all() if grant.account.uid == person
        }
        # Users who ended their grant may still have clients that are signed in.
        known = {*found, Principal(settings.server_url, person)} if settings.mode == "builtin" else found
        signed_out = 0
        for principal in known:
            signed_out += await database.oauth_tokens.end(principal)
            signed_out += await database.sign_ins.delete_all(principal)
        if not found and not signed_out:
            raise ConfigurationError(
                f"No user is connected as {person!r}: 'grants list' shows the connected users."
            )
        for principal in known:
            ended = AuditEntry(now(), principal, "", "disconnect", "by the operator")
            await database.grants.disconnect(principal, audit=ended)
    result(
        f"{person} is disconnected and signed out. The server ends it at Nextcloud within a minute, or when it runs "
        "again."
    )


async def _revoke(settings: Settings) -> None:
    if settings.nextcloud_host is None:
        found = sorted({grant.account.nextcloud_url for grant in await _all(settings)})
        if not found:
            say("Nothing is connected.")
            return
        if len(found) > 1:
            raise ConfigurationError(f"There are several: name one with --nextcloud, of {', '.join(found)}.")
        settings = settings.model_copy(update={"nextcloud_host": found[0]})
    url = str(nextcloud_url_of(settings))
    async with running_services(Personal(settings)) as (opened, _):
        ended = await opened.accounts.disconnect(personal_caller(url, "The command line"))
    if not ended.was_connected:
        say(f"Nothing is connected at {url}.")
    elif ended.at_nextcloud:
        result(f"Disconnected from {url}; Nextcloud has deleted the app password.")
    elif ended.by_hand:
        result(
            f"Disconnected from {url} here only: the key of the stored access is missing. Delete the app "
            "password in Nextcloud under Settings > Security."
        )
    else:
        result(f"Disconnected from {url}. Nextcloud has not confirmed it yet: the server will try again.")
