"""Shows the operator of a server for many users what its database holds, without a name of any user or client."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

from nextcloud_mcp_server.auth.retention import CONSENT_REQUESTS_KEPT
from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict
from nextcloud_mcp_server.errors import NextcloudMcpError
from nextcloud_mcp_server.server.database_file import stored_in
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.overview import Grants, Overview, Requests
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION
from nextcloud_mcp_server.storage.records import ElicitationState

#: A running server deletes what is over at least once an hour.
_LATE = timedelta(hours=3)
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


async def look_at_overview(settings: Settings, *, clock: Callable[[], datetime]) -> list[Finding]:
    """Count users, clients, consent requests and rows; nothing is said while there is no current schema."""
    days = settings.audit_retention_days
    try:
        if (await stored_in(settings)).version != SCHEMA_VERSION:
            return []
        async with open_database(settings, clock=clock) as database:
            seen = await database.overview.read(
                requests_kept=CONSENT_REQUESTS_KEPT, audit_kept=timedelta(days=days) if days else None
            )
            unreadable: Counter[str] = Counter()
            for rows in await database.key_rotation.counts():
                if rows.key_id not in database.key_rotation.key_ids:
                    unreadable[rows.table] += rows.rows
    except NextcloudMcpError:
        # The database has a line of its own.
        return []
    return list(_findings(seen, unreadable, clock()))


def _findings(seen: Overview, unreadable: Mapping[str, int], now: datetime) -> Iterator[Finding]:
    yield Finding(Verdict.OK, "users", _users(seen.grants))
    yield Finding(Verdict.OK, "clients", _clients(seen))
    yield Finding(Verdict.OK, "consent requests", _consent_requests(seen.requests))
    yield _revocations(seen)
    yield _readable(unreadable)
    yield _clean_up(seen.stale_since, now)
    yield Finding(Verdict.OK, "database size", _size(seen))


def _users(grants: Grants) -> str:
    return (
        f"{grants.working + grants.postponed} connected"
        f" ({grants.postponed} of them wait for the next token refresh), {grants.refused} must consent again"
    )


def _clients(seen: Overview) -> str:
    grants = seen.grants
    return (
        f"{seen.clients} registered, {grants.clients} allowed by a user; {grants.permissions} permissions"
        f" ({grants.paused} paused)"
    )


def _consent_requests(requests: Requests) -> str:
    ended = ", ".join(f"{requests.ended.get(state, 0)} {state}" for state in ElicitationState if state.final)
    reasons = ", ".join(f"{number} {code or 'other'}" for code, number in sorted(requests.reasons.items()))
    return f"{requests.open} open; of the last 24 hours {ended}" + (
        f" (failed: {reasons})" if reasons else ""
    )


def _revocations(seen: Overview) -> Finding:
    if not seen.failed_revocations:
        return Finding(Verdict.OK, "revocations", f"{seen.revocations} are still to be sent to Nextcloud")
    return Finding(
        Verdict.WARN,
        "revocations",
        f"{seen.revocations} are still to be sent to Nextcloud, and {seen.failed_revocations} of them failed before: "
        "the server tries them again. The log says why; see whether Nextcloud answers.",
    )


def _readable(unreadable: Mapping[str, int]) -> Finding:
    if not unreadable:
        return Finding(Verdict.OK, "rows", "all can be read with the keys of the settings")
    tables = ", ".join(f"{number} of {table}" for table, number in sorted(unreadable.items()))
    return Finding(
        Verdict.WARN,
        "rows",
        f"{sum(unreadable.values())} were sealed with a key that is missing ({tables}): 'nextcloud-mcp-server keys "
        "status' names it. Put it back, or these users connect again.",
    )


def _clean_up(since: datetime | None, now: datetime) -> Finding:
    if since is None:
        return Finding(Verdict.OK, "clean-up", "no row is over its time")
    age = now - since
    text = f"the oldest row that is to be deleted has been over its time for {_span(age)}"
    if age < _LATE:
        return Finding(Verdict.OK, "clean-up", text)
    return Finding(
        Verdict.WARN,
        "clean-up",
        f"{text}: a running server deletes them each hour. Start it, or look into its log.",
    )


def _size(seen: Overview) -> str:
    size = f"{_bytes(seen.size)}, schema {SCHEMA_VERSION}"
    if seen.other_processes is None:
        return size
    return f"{size}; {seen.other_processes} other processes are connected to it (replicas and commands)"


def _span(time: timedelta) -> str:
    hours = time // timedelta(hours=1)
    return f"{hours // 24} days" if hours >= 48 else f"{hours} hours"  # noqa: PLR2004 - two days


def _bytes(number: int) -> str:
    size, unit = float(number), 0
    while size >= 1000 and unit < len(_UNITS) - 1:  # noqa: PLR2004 - as in kB
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"
