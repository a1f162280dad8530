"""Prints the audit log for the operator: the latest entries as a table, or all of them for another program."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from re import fullmatch

import anyio

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.commands.accounts import table
from nextcloud_mcp_server.commands.console import result, result_json, say
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.logs import one_line
from nextcloud_mcp_server.server.database_file import schema_of
from nextcloud_mcp_server.server.services import now, open_database
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.records import AuditEntry, Principal

_HEADER = ("TIME (UTC)", "USER", "CLIENT ID", "ACTION", "RESULT", "OBJECT", "REQUEST")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_AT_ONCE = 500


def list_entries(
    settings: Settings, *, since: str | None, person: str | None, limit: int, as_json: bool
) -> None:
    """Print the latest entries, the newest last as in a log file.

    Raises:
      ConfigurationError: `since` is no time, or no user is known as `person`.
    """
    logs.set_up(settings.log_level, settings.log_format)
    found = anyio.run(_found, settings, _since(since), person, limit)
    if as_json:
        result_json([_fields(entry, uid) for entry, uid in found], indent=2)
    elif not found:
        say("The audit log has no such entry.")
    else:
        for line in table([_HEADER, *(_row(entry, uid) for entry, uid in found)]):
            result(line)


def export_entries(settings: Settings, *, since: str | None, person: str | None) -> None:
    """Print every entry as a line of JSON, the newest first.

    Raises:
      ConfigurationError: `since` is no time, or no user is known as `person`.
    """
    logs.set_up(settings.log_level, settings.log_format)
    anyio.run(_export, settings, _since(since), person)


Found = tuple[AuditEntry, str]


async def _found(settings: Settings, since: datetime | None, person: str | None, limit: int) -> list[Found]:
    entries: list[Found] = []
    if await schema_of(settings) is None:
        # Opening it would make the database, and the key.
        return entries
    async with open_database(settings) as database, aclosing(_entries(database, since, person)) as latest:
        async for found in latest:
            entries.append(found)
            if len(entries) == limit:
                break
    return entries[::-1]


async def _export(settings: Settings, since: datetime | None, person: str | None) -> None:
    if await schema_of(settings) is None:
        return
    async with open_database(settings) as database, aclosing(_entries(database, since, person)) as latest:
        async for entry, uid in latest:
            result_json(_fields(entry, uid))


async def _entries(database: Database, since: datetime | None, person: str | None) -> AsyncGenerator[Found]:
    """Yield each entry with the user id of its account, the newest first."""
    held = {holding.principal: holding.uid for holding in await database.accounts.all()}
    people = None if person is None else await _principals(database, held, person)
    before: int | None = None
    while True:
        batch = await database.audit.latest(limit=_AT_ONCE, before=before, since=since, people=people)
        for numbered in batch:
            yield numbered.entry, held.get(numbered.entry.principal, "")
        if len(batch) < _AT_ONCE:
            return
        before = batch[-1].number


async def _principals(database: Database, held: dict[Principal, str], person: str) -> list[Principal]:
    """Return the principals of a Nextcloud user id, or of a subject, also of one that holds no account any more."""
    found = {principal for principal, uid in held.items() if person in (uid, principal.subject)}
    found.update(await database.audit.with_subject(person))
    if not found:
        raise ConfigurationError(
            f"No user is known here as {person!r}: name a Nextcloud user id, or the subject at the identity provider, "
            "as 'audit list' shows them."
        )
    return list(found)


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    if match := fullmatch(r"(\d{1,5})([mhdw])", text.strip()):
        return now() - int(match[1]) * _UNITS[match[2]]
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigurationError(
            f"--since {text!r} is no time: write 30m, 12h, 7d, 4w, a day such as 2026-01-31, or 2026-01-31T09:15."
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _row(entry: AuditEntry, uid: str) -> Sequence[str]:
    cells = (
        f"{entry.at:%Y-%m-%d %H:%M:%S}",
        uid or entry.principal.subject,
        entry.client_id,
        entry.action,
        entry.result,
        entry.detail,
        entry.request_id,
    )
    return tuple(map(one_line, cells))


def _fields(entry: AuditEntry, uid: str) -> dict[str, object]:
    return {
        "at": entry.at.isoformat(),
        "person": uid or None,
        "issuer": entry.principal.issuer,
        "subject": entry.principal.subject,
        "client_id": entry.client_id,
        "action": entry.action,
        "result": entry.result,
        "object": entry.detail,
        "request_id": entry.request_id,
    }
