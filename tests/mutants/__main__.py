"""Run the tests on a tree without each guard: `python -m tests.mutants`, or `make mutants`."""

import argparse
import sys
import tempfile
from pathlib import Path
from threading import Lock

from tests.mutants.guards import chosen, read_guards
from tests.mutants.report import PART_KILLED, rate, sentence, untried, write
from tests.mutants.run import Outcome, TestsFail, run_all


def main() -> int:
    """Run it; return 1 where no test notices a missing guard."""
    options = _options()
    every = read_guards()
    stale = [f"✗ {guard.prevents}: {fault}" for guard in every for fault in guard.faults()]
    if stale:
        _say("\n".join([*stale, "The table is stale: put its rows right first."]))
        return 1
    guards = chosen(every, options.only)
    if options.untried:
        guards = untried(guards)
    outcomes: list[Outcome] = []
    one_at_a_time = Lock()

    def told(outcome: Outcome) -> None:
        # The page is written as results arrive: a run of hours may be stopped.
        with one_at_a_time:
            outcomes.append(outcome)
            write(every, [outcome])
            _tell(outcome)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        try:
            run_all(
                guards,
                Path(folder),
                jobs=options.jobs,
                seconds=options.seconds,
                baseline=not options.no_baseline,
                on_outcome=told,
            )
        except TestsFail as failure:
            _say(f"The tests fail with all guards in place:\n{failure}")
            return 1
    odd = [outcome for outcome in outcomes if not outcome.accepted]
    _say(f"\n{len(outcomes)} guards tried, {rate(outcomes):.1%} killed, {len(odd)} survive without a reason.")
    for outcome in odd:
        _say(f"✗ {outcome.ending}: {outcome.guard.prevents} ({outcome.guard.path})")
    return 1 if odd or (not options.only and rate(outcomes) < PART_KILLED) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="try the guards whose sentence or file fits this pattern")
    parser.add_argument(
        "--untried", action="store_true", help="leave out those of which the page has a result"
    )
    parser.add_argument("--jobs", type=int, default=1, help="so many at once")
    parser.add_argument("--seconds", type=float, default=120.0, help="time limit of the tests of one guard")
    parser.add_argument(
        "--no-baseline", action="store_true", help="trust that the named tests pass with all guards in place"
    )
    return parser.parse_args()


def _tell(outcome: Outcome) -> None:
    mark = "✓" if outcome.accepted else "✗"
    _say(f"{mark} {outcome.guard.path}: {outcome.guard.prevents} … {sentence(outcome)}  {outcome.by}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
