"""Let many users work for a long time, with faults: `python -m tests.load.soak`, or `make soak`.

Ends with code 1 when a promise is broken.
"""

import argparse
import logging
import os
import sys

import anyio

from tests.load.report import table
from tests.load.soak.run import Outcome, Plan, soak_in_folder


def main() -> int:
    """Run it, and print what was found."""
    options = _options()
    # The sandbox drops connections on purpose.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    plan = Plan(
        options.people,
        options.minutes * 60,
        options.processes,
        options.pause,
        options.fault_seconds,
        options.seed,
    )
    server = os.environ.get("TEST_POSTGRES_URL")
    if not server:
        _say("No TEST_POSTGRES_URL: on SQLite. `.ci/postgres make soak` runs it on PostgreSQL.")
    outcome = anyio.run(soak_in_folder, plan, server)
    _say(report(outcome))
    return outcome.exit_code


def report(outcome: Outcome) -> str:
    """Write what was found, and the first texts of what went wrong."""
    ledger, calls = outcome.ledger, outcome.ledger.calls.total()
    plan = outcome.plan
    told = [
        table(outcome.metrics),
        (
            f"{plan.people} people for {plan.seconds / 60:.1f} minutes, {plan.processes} processes: {calls} answers, "
            f"{outcome.cpu_seconds / max(1, calls) * 1000:.1f} ms of processor time each; "
            f"asked {ledger.counts['asked']} times, {ledger.counts['consents']} consents."
        ),
        f"faults: {dict(ledger.faults)}",
        f"errors that a fault explains: {ledger.excused.total()}",
        *(f"  {number} times {text}" for text, number in ledger.excused.most_common(40)),
        f"rows: { ({name: number for name, number in sorted(outcome.rows.items()) if number}) }",
        f"at the start: { ({name: number for name, number in sorted(outcome.rows_then.items()) if number}) }",
    ]
    for name, texts in (
        ("crossed", ledger.crossed),
        ("spurious", ledger.spurious),
        ("unexpected", ledger.errors),
        ("logged", outcome.log_errors),
    ):
        told += [f"✗ {name}: {text}" for text in texts[:20] if text]
    return "\n".join(told)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.load.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (30)")
    parser.add_argument("--people", type=int, default=50, help="users, each with two clients (50)")
    parser.add_argument("--processes", type=int, default=2, help="processes of this server (2)")
    parser.add_argument(
        "--pause", type=float, default=6.0, help="mean seconds between two calls of a client (6)"
    )
    parser.add_argument(
        "--fault-seconds", type=float, default=12.0, help="mean seconds between two faults (12)"
    )
    parser.add_argument("--seed", type=int, default=1, help="for the order of work and faults (1)")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
