"""The official conformance runner's scenarios for clients, with the client of this project, alone and as the bridge.

All scenarios of every revision that we speak are run, but those of extensions. What fails for a reason stands in
`expected_failures/client.yml`.
"""

import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.conformance.test_official_runner import ENTRY, EXPECTED_FAILURES, known_scenarios, runner_script
from tests.integration.stdio_app import ROOT

pytestmark = pytest.mark.process

REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
EXPECTED = EXPECTED_FAILURES / "client.yml"
_PROGRAM = f"{sys.executable} {ROOT / 'tests' / 'conformance' / 'client_under_test.py'}"


async def run(node: str, folder: Path, which: str, *options: str) -> tuple[int, str]:
    """Run scenarios with our client, or with our bridge; the answer is the runner's exit code, and what it said."""
    command = [node, runner_script(), "client", "--command", f"{_PROGRAM} {which}"]
    # The limit is for one scenario; the runner starts all of them at once.
    command += ["--timeout", "280000", *options]
    environment = {"PATH": f"{Path(node).parent}:/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    with anyio.fail_after(560):
        done = await anyio.run_process(
            command, stdin=subprocess.DEVNULL, check=False, cwd=folder, env=environment
        )
    return done.returncode, done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize("which", ["client", "bridge"])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_scenario_for_clients_passes_or_has_a_reason(
    node: str, tmp_path: Path, revision: str, which: str
) -> None:
    options = ("--suite", "all", "--spec-version", revision, "--expected-failures", str(EXPECTED))

    code, said = await run(node, tmp_path, which, *options)

    assert code == 0, said
    known = await known_scenarios(node, "Client")
    passed = dict(re.findall(r"^[✓✗] (\S+): (\d+) passed", said, re.MULTILINE))
    assert passed.keys() == {name for name, revisions in known.items() if revision in revisions}, said
    # A scenario that finds nothing to check fails nothing.
    excused = {entry.split()[1].partition(":")[0] for entry in _entries()}
    assert {name for name, count in passed.items() if count == "0"} <= excused, said


async def test_a_client_that_does_nothing_fails_the_run(node: str, tmp_path: Path) -> None:
    code, said = await run(
        node, tmp_path, "nobody", "--scenario", "initialize", "--spec-version", "2025-11-25"
    )

    assert code == 1, said


def test_every_expected_failure_has_a_reason() -> None:
    assert _entries()
    assert [entry for entry in _entries() if not ENTRY.match(entry.replace("/", "-"))] == []


def _entries() -> list[str]:
    lines = EXPECTED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.lstrip().startswith("-")]
