"""Measure the server and its baselines: `python -m tests.load`, or `make bench`."""

import argparse
import sys
import tempfile
from pathlib import Path

import anyio

from tests.load import process
from tests.load.client import CallFailed
from tests.load.install import count_packages
from tests.load.measure import Bench, Effort, Measured
from tests.load.report import details, document, metrics, table
from tests.load.servers import all_servers, fake_nextcloud, reason

_STEPS = {
    "start": Bench.start,
    "call": Bench.call,
    "pages": Bench.pages,
    "big": Bench.big,
    "year": Bench.year,
    "felt": Bench.felt,
    "token": Bench.token,
    "refresh": Bench.refresh,
    "renew": Bench.renew,
    "kill": Bench.kill,
    "cross": Bench.cross,
    "pending": Bench.pending,
    "wait": Bench.wait,
    "slow": Bench.slow,
    "attack": Bench.attack,
    "bridge": Bench.bridge,
}
#: These need a system that reports the resources of a process, or can fork and kill processes.
_LINUX = frozenset({"big", "pending", "wait", "slow", "attack", "kill"})


def main() -> int:
    """Run the steps, print the table, write the page."""
    options = _options()
    effort = Effort(
        options.starts,
        options.calls,
        options.rounds,
        options.tries,
        options.people,
        options.expiries,
        options.kills,
        options.seconds,
    )
    with tempfile.TemporaryDirectory() as folder:
        measured = anyio.run(_measure, Path(folder), effort, options.steps)
    if options.install:
        _say("packages of a default install …")
        measured.packages = count_packages()
    found = metrics(measured)
    _say(f"\n{table(found)}\n\n{details(measured)}\n")
    for sentence in measured.failures:
        _say(f"✗ {sentence}")
    for request in sorted(measured.unknown_requests):
        _say(f"✗ the fake Nextcloud knows no {request}")
    if options.output:
        page = Path(options.output)
        whole = set(options.steps) == set(_STEPS)
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        page.write_text(document(measured, before, whole=whole), encoding="utf-8")
        _say(f"written: {options.output}")
    broken = measured.failures or any(metric.met is False for metric in found)
    return 1 if options.strict and broken else 0


async def _measure(folder: Path, effort: Effort, steps: list[str]) -> Measured:
    async with fake_nextcloud(folder) as upstream:
        bench = Bench(upstream, all_servers(upstream, folder / "data"), folder, effort)
        for name in steps:
            if name in _LINUX and not process.is_readable():
                continue
            _say(f"{name} …")
            try:
                await _STEPS[name](bench)
            except* CallFailed as group:
                bench.note(f"{name}: {reason(group)}")
    return bench.measured


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--starts", type=int, default=5, help="starts of each server (5)")
    parser.add_argument("--calls", type=int, default=600, help="calls of each kind (600)")
    parser.add_argument("--rounds", type=int, default=12, help="rounds in which all take turns (12)")
    parser.add_argument("--tries", type=int, default=50, help="races for a refresh token (50; or 1000)")
    parser.add_argument("--people", type=int, default=200, help="people with the same ids (200)")
    parser.add_argument("--expiries", type=int, default=10, help="expiries of a shared grant (10; or 1000)")
    parser.add_argument("--kills", type=int, default=10, help="killed servers (10; or 200)")
    parser.add_argument("--seconds", type=int, default=60, help="seconds of an attack (60)")
    parser.add_argument("--steps", nargs="*", choices=_STEPS, default=list(_STEPS), help="only these steps")
    parser.add_argument("--install", action="store_true", help="count the packages of an install (slow)")
    parser.add_argument("--output", help="write the figures into a page, such as docs/performance.md")
    parser.add_argument("--strict", action="store_true", help="end with code 1 when a budget is missed")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
