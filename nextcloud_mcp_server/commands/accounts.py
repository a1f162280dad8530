"""Lists which sign-in holds which Nextcloud account, and releases accounts (multi-user servers)."""

import json
import sys
from collections.abc import Sequence
from itertools import zip_longest

import anyio
import typer

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.commands.console import result, say
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.logs import one_line
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.records import Holding

_HEADER = ("ACCOUNT", "NEXTCLOUD", "HELD BY", "AT", "NAMED BY", "STATE", "SINCE")


def list_accounts(settings: Settings, *, as_json: bool) -> None:
    """Print every account that a sign-in holds on this server."""
    _require(settings)
    logs.set_up(settings.log_level, settings.log_format)
    found = anyio.run(_all, settings)
    if as_json:
        result(json.dumps([_fields(settings, each) for each in found], indent=2))
    elif not found:
        say("No user has connected an account yet.")
    else:
        for line in table([_HEADER, *(_row(settings, each) for each in found)]):
            result(line)


def release_account(settings: Settings, uid: str, *, issuer: str | None, yes: bool) -> None:
    """End the connection of the user who holds an account, so that another sign-in may connect it.

    Raises:
      ConfigurationError: No sign-in holds it, several do, or the operator did not confirm.
    """
    _require(settings)
    logs.set_up(settings.log_level, settings.log_format)
    holding = _the_one(anyio.run(_all, settings), uid, issuer)
    if not yes:
        _confirm(settings, holding)
    anyio.run(_release, settings, holding)
    result(
        f"{uid} is released: it is disconnected from {_text(holding.principal.subject)}, and the next user who signs "
        "in to it at Nextcloud can connect it. The server ends the access at Nextcloud within a minute, or when it "
        "runs again."
    )


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with aligned columns; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _row(settings: Settings, holding: Holding) -> tuple[str, ...]:
    fields = _fields(settings, holding)
    at = (
        f"{fields['issuer']}"
        if fields["configured_issuer"]
        else f"{fields['issuer']} (not configured any more)"
    )
    return (
        _text(holding.uid),
        _text(holding.nextcloud_url),
        _text(holding.principal.subject),
        _text(at),
        "mapping" if holding.mapped else "the user",
        "connected" if holding.connected else "disconnected",
        f"{holding.created_at:%Y-%m-%d}",
    )


def _fields(settings: Settings, holding: Holding) -> dict[str, object]:
    configured = settings.server_url if settings.mode == "builtin" else settings.oidc_issuer
    return {
        "uid": holding.uid,
        "nextcloud_url": holding.nextcloud_url,
        "issuer": holding.principal.issuer,
        "subject": holding.principal.subject,
        "configured_issuer": holding.principal.issuer == configured,
        "named_by": "mapping" if holding.mapped else "user",
        "connected": holding.connected,
        "since": holding.created_at.isoformat(),
    }


def _the_one(found: Sequence[Holding], uid: str, issuer: str | None) -> Holding:
    held = [each for each in found if each.uid == uid and issuer in (None, each.principal.issuer)]
    if not held:
        raise ConfigurationError(
            f"No user holds the account {uid!r} here: 'accounts list' shows which are held."
        )
    if len(held) > 1:
        raise ConfigurationError(
            f"The account {uid!r} is held by several sign-ins: name the issuer of one with --issuer, as "
            "'accounts list' shows them."
        )
    return held[0]


def _confirm(settings: Settings, holding: Holding) -> None:
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "This ends a connection. Confirm it with --yes where there is no terminal to ask at."
        )
    for line in table([_HEADER, _row(settings, holding)]):
        say(line)
    if not typer.confirm("End this connection, and let another user connect the account?", err=True):
        raise ConfigurationError("Nothing was released.")


def _require(settings: Settings) -> None:
    if not settings.multi_user:
        raise ConfigurationError(
            f"accounts is for servers of many users: with MODE={settings.mode} use 'grants list' and 'grants revoke'."
        )


def _text(text: str) -> str:
    return one_line(text)


async def _all(settings: Settings) -> list[Holding]:
    async with open_database(settings) as database:
        return await database.accounts.all()


async def _release(settings: Settings, holding: Holding) -> None:
    async with open_database(settings) as database:
        if not await database.accounts.release(holding):
            raise ConfigurationError(f"No user holds the account {holding.uid!r} any more.")
