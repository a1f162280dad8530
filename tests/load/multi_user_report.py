"""The limits for a multi-user server."""

from collections.abc import Iterator

from tests.load.attack import p99
from tests.load.measure import Measured
from tests.load.metric import Metric
from tests.load.multi_user import PENDING, WAITERS
from tests.load.token_refresh import PROCESSES

UNMEASURED = "not measured"
MOST_MB = 20
MOST_SHARE = 0.05
MOST_TIMES = 1.25
MOST_TIMES_ATTACKED = 1.5
MOST_MB_ATTACKED = 100


def multi_user_metrics(measured: Measured) -> Iterator[Metric]:
    """Yield the metrics."""
    yield from _refreshes(measured)
    yield from _toll(measured)
    yield _crossed(measured)
    yield _pending(measured)
    yield _waiters(measured)
    yield _slow(measured)
    yield from _attack(measured)


def _refreshes(measured: Measured) -> Iterator[Metric]:
    found, name = measured.refreshes, f"{PROCESSES} processes, one grant"
    if found is None:
        yield Metric(f"{name}: refreshes per expiry", "1", UNMEASURED, None)
        return
    asked = f"{found.refreshes} in {found.expiries}"
    yield Metric(f"{name}: refreshes per expiry", "1", asked, found.refreshes == found.expiries)
    yield Metric(f"{name}: used tokens sent again", "0", str(found.refused), not found.refused)
    yield Metric(f"{name}: failed calls", "0", str(found.failed_calls), not found.failed_calls)


def _toll(measured: Measured) -> Iterator[Metric]:
    found = measured.toll
    if found is None:
        yield Metric("killed servers: rows lost, wrong grants, people stuck", "0", UNMEASURED, None)
        return
    name = f"{found.kills} killed servers"
    yield Metric(f"{name}: broken databases", "0", str(found.broken_databases), not found.broken_databases)
    yield Metric(f"{name}: committed rows lost", "0", str(found.rows_lost), not found.rows_lost)
    yield Metric(f"{name}: wrong-person answers", "0", str(found.wrong_people), not found.wrong_people)
    yield Metric(f"{name}: people who could not just try again", "0", str(len(found.stuck)), not found.stuck)
    yield Metric(
        f"{name}: new consents", "≤ 1 a kill", str(found.asked_anew), found.asked_anew <= found.kills
    )


def _crossed(measured: Measured) -> Metric:
    found = measured.crossed
    if found is None:
        return Metric("same ids: crossed answers", "0", UNMEASURED, None)
    name = f"{found.people} people, {found.calls} calls, same ids: crossed or failed"
    failed = len(found.failures)
    return Metric(name, "0", f"{found.crossed} + {failed}", not found.crossed and not failed)


def _pending(measured: Measured) -> Metric:
    name, found = f"{PENDING} pending consent requests: memory", measured.pending_mb
    if found is None:
        return Metric(name, f"≤ {MOST_MB} MiB", UNMEASURED, None)
    return Metric(name, f"≤ {MOST_MB} MiB", f"{found:.1f} MiB", found <= MOST_MB)


def _waiters(measured: Measured) -> Metric:
    name, found = f"{WAITERS} waiting calls: share of a processor", measured.waiters_share
    if found is None:
        return Metric(name, f"≤ {MOST_SHARE:.0%}", UNMEASURED, None)
    return Metric(name, f"≤ {MOST_SHARE:.0%}", f"{found:.1%}", found <= MOST_SHARE)


def _slow(measured: Measured) -> Metric:
    name, found = "p99 beside a user with a slow Nextcloud", measured.slow
    if found is None:
        return Metric(name, f"≤ {MOST_TIMES} times", UNMEASURED, None)
    ratio = found.beside / found.quiet
    told = f"{ratio:.2f} times ({found.beside:.0f} ms : {found.quiet:.0f} ms), {found.failed} failed"
    return Metric(name, f"≤ {MOST_TIMES} times", told, ratio <= MOST_TIMES and not found.failed)


def _attack(measured: Measured) -> Iterator[Metric]:
    found, name = measured.attack, "beside one token at full speed"
    if found is None:
        yield Metric(f"{name}: p99 of others", f"≤ {MOST_TIMES_ATTACKED} times", UNMEASURED, None)
        return
    told = f"{found.ratio:.2f} times ({p99(found.beside):.0f} ms : {p99(found.quiet):.0f} ms) in {found.seconds} s"
    yield Metric(
        f"{name}: p99 of others", f"≤ {MOST_TIMES_ATTACKED} times", told, found.ratio <= MOST_TIMES_ATTACKED
    )
    failed = len(found.failures)
    yield Metric(f"{name}: failed calls of others", "0", str(failed), not failed)
    added = f"{found.added_mb:.0f} MiB"
    yield Metric(f"{name}: memory", f"≤ {MOST_MB_ATTACKED} MiB", added, found.added_mb <= MOST_MB_ATTACKED)
