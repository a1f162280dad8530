"""Lists what people allowed which client, and ends it: for one person, one client, or all."""

import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import anyio
import typer

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.auth.principal import personal_caller
from nextcloud_mcp_server.auth.scopes import shorten
from nextcloud_mcp_server.commands.accounts import table
from nextcloud_mcp_server.commands.console import program, result, result_json, say
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.logs import one_line
from nextcloud_mcp_server.server.database_file import schema_of
from nextcloud_mcp_server.server.modes.personal import Personal
from nextcloud_mcp_server.server.opening import running_services
from nextcloud_mcp_server.server.services import nextcloud_url_of, now, open_database
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import AuditEntry, Grant, Principal

HEADER = ("USER", "NEXTCLOUD", "CLIENT", "CLIENT ID", "MAY", "LAST USED", "STATE")
_BY_OPERATOR = "by the operator"
_SOON = "The server ends it at Nextcloud within a minute, or when it runs again."


def list_grants(settings: Settings, *, as_json: bool) -> None:
    """Print what every user allowed each client, one grant per line."""
    logs.set_up(settings.log_level, settings.log_format)
    found = anyio.run(_all, settings)
    if as_json:
        result_json([_fields(grant) for grant in found], indent=2)
    elif not found:
        say(_nothing(settings))
    else:
        for line in table([HEADER, *map(_row, found)]):
            result(line)


def revoke_grants(
    settings: Settings, *, person: str | None, client: str | None, every: bool, yes: bool
) -> None:
    """End connections, here and at Nextcloud: all, those of a user id, or what was allowed to one client.

    On a single-user server without options, the one there is.

    Raises:
      ConfigurationError: The options do not say whose, nothing fits them, or the operator did not confirm.
    """
    chosen = [name for name, given in (("--all", every), ("--person", person), ("--client", client)) if given]
    if settings.multi_user:
        _require_choice(settings, chosen)
    elif person is not None or client is not None:
        raise ConfigurationError(
            f"{' and '.join(chosen)}: this is for servers of many users; leave it out. Here all clients of this "
            "computer share one grant."
        )
    logs.set_up(settings.log_level, settings.log_format)
    if every and not yes:
        _confirm(settings, len(anyio.run(_all, settings)))
    if not settings.multi_user:
        anyio.run(_revoke_personal, settings, every)
    elif client is not None:
        anyio.run(_revoke_client, settings, client, person)
    elif person is not None:
        anyio.run(_revoke_person, settings, person)
    else:
        anyio.run(_revoke_all, settings)


def _require_choice(settings: Settings, chosen: Sequence[str]) -> None:
    if not chosen:
        raise ConfigurationError(
            "grants revoke needs to know whose: --person and a Nextcloud user id, --client and a client id, as 'grants "
            f"list' shows them, or --all. Users end their own at {settings.server_url}/account."
        )
    if "--all" in chosen and len(chosen) > 1:
        raise ConfigurationError("--all ends every connection: leave out --person and --client, or --all.")


def _confirm(settings: Settings, grants: int) -> None:
    what = (
        "This disconnects and signs out every user"
        if settings.multi_user
        else "This disconnects every Nextcloud"
    )
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{what}. Confirm it with --yes where there is no terminal to ask at.")
    if not typer.confirm(f"{what} (grants: {grants}). Go on?", err=True):
        raise ConfigurationError("Nothing was ended.")


def _nothing(settings: Settings) -> str:
    if settings.multi_user:
        return (
            f"No user is connected yet. Each user adds {settings.resource_url} to a chat client, which then asks for "
            "access."
        )
    if settings.sandbox:
        return "Nothing is connected. A server with --sandbox asks for it when a client calls a tool."
    url = settings.nextcloud_host or "https://cloud.example.org"
    return f"Nothing is connected. Connect with: {program()} connect --nextcloud {url}"


async def _all(settings: Settings) -> list[Grant]:
    if await schema_of(settings) is None:
        # Opening it would make the database, and the key.
        return []
    async with open_database(settings) as database:
        return await database.grants.all()


def _row(grant: Grant) -> tuple[str, ...]:
    account, permission = grant.account, grant.permission
    if permission is None:
        client = ("(none)", "", "", "")
    else:
        used = permission.last_used_at
        shown = f"{used:%Y-%m-%d %H:%M} UTC" if used else "not yet"
        client = (permission.client_name, permission.client_id, " ".join(shorten(permission.scopes)), shown)
    return tuple(map(one_line, (account.uid, account.nextcloud_url, *client, _state(grant))))


def _fields(grant: Grant) -> dict[str, object]:
    account, permission = grant.account, grant.permission
    fields: dict[str, object] = {
        "person": account.uid,
        "display_name": account.display_name,
        "nextcloud_url": account.nextcloud_url,
        "issuer": account.principal.issuer,
        "subject": account.principal.subject,
        "state": _state(grant),
    }
    if permission is None:
        return {**fields, "client": None}
    client = {
        "id": permission.client_id,
        "name": permission.client_name,
        "scopes": sorted(permission.scopes),
        "granted_at": permission.granted_at.isoformat(),
        "last_used_at": _iso(permission.last_used_at),
    }
    return {**fields, "client": client}


def _state(grant: Grant) -> str:
    if grant.credential.needs_reauth:
        return "asks again at the next call"
    return "paused" if grant.permission and grant.permission.paused else "works"


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


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
        await _disconnect(database, known)
    result(f"{person} is disconnected and signed out. {_SOON}")


async def _revoke_client(settings: Settings, client: str, person: str | None) -> None:
    async with open_database(settings) as database:
        holders = [
            grant.account
            for grant in await database.grants.all()
            if grant.permission is not None
            and grant.permission.client_id == client
            and person in (None, grant.account.uid)
        ]
        if not holders:
            whose = "No user" if person is None else f"{person!r} is not one who"
            raise ConfigurationError(
                f"{whose} allows the client {client!r} anything: 'grants list' shows the ids of clients."
            )
        for account in holders:
            entry = AuditEntry(now(), account.principal, client, "disconnect", _BY_OPERATOR)
            await database.grants.end_client(account.principal, client, audit=entry)
    counted = one_line(", ".join(sorted({account.uid for account in holders})))
    result(f"{client} may do nothing any more in the name of {counted}. Their connections to Nextcloud stay.")


async def _revoke_all(settings: Settings) -> None:
    async with open_database(settings) as database:
        principals = {grant.account.principal for grant in await database.grants.all()}
        ended = await database.restored.forget(why="ended: by the operator")
        await _disconnect(database, principals)
    result(
        f"Every user is disconnected ({len(principals)}), and signed out: clients {ended.clients}, browsers "
        f"{ended.browsers}. {_SOON}"
    )


async def _disconnect(database: Database, principals: "set[Principal]") -> None:
    for principal in principals:
        entry = AuditEntry(now(), principal, "", "disconnect", _BY_OPERATOR)
        await database.grants.disconnect(principal, audit=entry)


async def _revoke_personal(settings: Settings, every: bool) -> None:  # noqa: FBT001 - anyio.run passes by place
    urls = [settings.nextcloud_host] if settings.nextcloud_host else []
    if every or not urls:
        urls = list(Counter(grant.account.nextcloud_url for grant in await _all(settings)))
    if not urls:
        say("Nothing is connected.")
        return
    if len(urls) > 1 and not every:
        raise ConfigurationError(
            f"There are several: name one with --nextcloud, of {', '.join(sorted(urls))}, or end them with --all."
        )
    for url in urls:
        await _revoke(settings.model_copy(update={"nextcloud_host": url}))


async def _revoke(settings: Settings) -> None:
    url = str(nextcloud_url_of(settings))
    async with running_services(Personal(settings)) as (opened, _):
        caller = personal_caller(url, "The command line")
        ended = await opened.accounts.disconnect(caller)
        # Now, and not when a client disconnects, the user may connect another account.
        for holding in await opened.database.accounts.all():
            if holding.principal == caller.principal:
                await opened.database.accounts.release(holding)
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
