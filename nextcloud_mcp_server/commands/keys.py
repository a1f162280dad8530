"""Shows which key encrypts how many rows, and encrypts everything again with the newest one."""

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
import typer

from nextcloud_mcp_server import logs
from nextcloud_mcp_server.commands.accounts import table
from nextcloud_mcp_server.commands.console import Progress, result, say
from nextcloud_mcp_server.errors import ConfigurationError, StorageError
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.key_rotation import Rotated, SealedRows

#: Between two batches, so that a running server gets access to the database.
_PAUSE_SECONDS = 0.02
#: One pass encrypts all rows, the next those added meanwhile. If rows of an old key keep appearing, the cause is
#: another.
_MOST_PASSES = 5

Pause = Callable[[], Awaitable[object]]
_pause: Pause = partial(anyio.sleep, _PAUSE_SECONDS)


def status(settings: Settings) -> None:
    """Print how many rows each key encrypts, and which keys can be removed from the settings."""
    logs.set_up(settings.log_level, settings.log_format)
    key_ids, counted = anyio.run(_counts, settings)
    _Report(settings.key_source, key_ids, counted).show()


def rotate(settings: Settings, *, yes: bool, pause: Pause = _pause) -> None:
    """Encrypt all rows again with the first key, while a server may be running.

    Raises:
      ConfigurationError: The operator did not confirm.
      StorageError: A server still encrypts with another key.
    """
    logs.set_up(settings.log_level, settings.log_format)
    key_ids, counted = anyio.run(_counts, settings)
    report = _Report(settings.key_source, key_ids, counted)
    if report.is_lost:
        if not yes:
            _confirm_loss(settings.key_source)
        say("From now on the first key seals; what a missing key sealed is not read any more.")
    elif report.old_rows:
        if not yes:
            _confirm(settings.key_source)
        anyio.run(_rotate, settings, report.old_rows, pause)
        report = _Report(settings.key_source, *anyio.run(_counts, settings))
    else:
        result("No row is sealed with an older key of the settings: there is nothing to do.")
    anyio.run(_settle, settings)
    report.show()


class _Report:
    """The rows encrypted with each key, and the consequences for the settings."""

    def __init__(self, source: str, key_ids: Sequence[bytes], counted: Sequence[SealedRows]) -> None:
        self._source = source
        self._key_ids = key_ids
        self._counted = counted
        self._rows: Counter[bytes] = Counter()
        for each in counted:
            self._rows[each.key_id] += each.rows

    @property
    def old_rows(self) -> int:
        """The number of rows encrypted with a configured key that is not the first one."""
        return sum(self._rows[key_id] for key_id in self._key_ids[1:])

    @property
    def is_lost(self) -> bool:
        """Whether there are rows, and no configured key opens any of them."""
        return bool(self._rows) and self._rows.keys().isdisjoint(self._key_ids)

    def show(self) -> None:
        """Print the table of keys, and below it what to do."""
        unknown = sorted(self._rows.keys() - set(self._key_ids))
        lines = [("KEY", "PLACE", "ROWS")]
        for place, key_id in enumerate(self._key_ids, 1):
            what = f"{place} (seals)" if place == 1 else f"{place}"
            lines.append((key_id.hex(), what, f"{self._rows[key_id]}"))
        lines += [(key_id.hex(), "missing", f"{self._rows[key_id]}") for key_id in unknown]
        for line in table(lines):
            result(line)
        for place, key_id in enumerate(self._key_ids[1:], 2):
            self._say_old(place, key_id)
        if unknown:
            say(
                f"Rows of a missing key cannot be read ({self._tables(unknown)}): put the key back into "
                f"{self._source}, or leave them; who needs them connects once more."
            )

    def _say_old(self, place: int, key_id: bytes) -> None:
        if self._rows[key_id]:
            say(
                f"Key {place} of {self._source} must stay: it seals {self._tables([key_id])}. "
                "'keys rotate' seals them with the first key; what it leaves was changed in the database and opens "
                "with no key."
            )
        else:
            say(
                f"Key {place} of {self._source} seals nothing any more. Remove it there, and restart every server, "
                "when they have run with the first key for an hour: open pages and sign-ins need it until then."
            )

    def _tables(self, key_ids: Sequence[bytes]) -> str:
        counts: Counter[str] = Counter()
        for each in self._counted:
            if each.key_id in key_ids:
                counts[each.table] += each.rows
        return ", ".join(f"{rows} of {name}" for name, rows in sorted(counts.items()))


def _confirm(source: str) -> None:
    question = f"Has every server of this database been restarted since the first key was put into {source}?"
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"{question} A server that was not restarted can read nothing that is sealed now. Then say --yes."
        )
    if not typer.confirm(
        f"{question} A server that was not restarted can read nothing that is sealed now.", err=True
    ):
        raise ConfigurationError(
            f"Nothing was sealed again. Restart every server with the keys of {source} first."
        )


def _confirm_loss(source: str) -> None:
    question = f"No key of {source} opens anything in this database. Is the right key lost?"
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"{question} Put it back there, or say --yes; then every user connects again."
        )
    if not typer.confirm(f"{question} Every user then connects again.", err=True):
        raise ConfigurationError(f"Nothing was changed. Put the right key back into {source}.")


async def _settle(settings: Settings) -> None:
    async with open_database(settings, any_keys=True) as database:
        await database.sealing_keys.settle()


async def _counts(settings: Settings) -> tuple[list[bytes], list[SealedRows]]:
    async with open_database(settings, any_keys=True) as database:
        return database.key_rotation.key_ids, await database.key_rotation.counts()


async def _rotate(settings: Settings, total: int, pause: Pause) -> None:
    say("This may be stopped at any time, and goes on where it was when it is run again.")
    async with open_database(settings) as database:
        done = await _passes(database, settings.key_source, total, pause)
    result(f"Rows that are sealed with the first key now: {done.resealed}.")
    if done.unreadable:
        tables = ", ".join(sorted(done.unreadable_tables))
        say(
            f"Values that do not open, and stay as they are: {done.unreadable} (in {tables}). Their key is missing, or "
            "they were changed in the database."
        )


async def _passes(database: Database, source: str, total: int, pause: Pause) -> Rotated:
    """Process all tables until nothing is left; return the number of rows of all passes."""
    progress, resealed = Progress(), 0

    def tell(rows: int) -> None:
        progress(f"{resealed + rows} of {max(total, resealed + rows)} rows")

    for _ in range(_MOST_PASSES):
        rotated = await database.key_rotation.rotate(pause=pause, progress=tell)
        resealed += rotated.resealed
        if not rotated.resealed and not rotated.changed_meanwhile:
            progress.close()
            rotated.resealed = resealed
            return rotated
    progress.close()
    raise StorageError(
        "Rows that were sealed with an older key keep coming: a server runs whose first key is another one than the "
        f"first of {source} here. Restart it with these keys, then run this again. Sealed again so far: {resealed}."
    )
