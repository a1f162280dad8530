"""The official conformance runner, on the real server with what the runner calls by name added to it.

Every server scenario of every revision that we speak is run, but those of extensions, such as tasks. What fails for a
reason stands in `expected_failures`.
"""

import re
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.conformance.fixture_server import add_fixtures
from tests.integration.personal_app import PersonalApp
from tests.node import NODE_MODULES, not_installed

RUNNER = NODE_MODULES / "@modelcontextprotocol" / "conformance"
EXPECTED_FAILURES = Path(__file__).parent / "expected_failures"
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
#: A line of a list of expected failures: a scenario or one of its checks, and the reason.
ENTRY = re.compile(r"^  - [\w:-]+ # \S.{20,}$")

# Logging and sampling are tested for the versions that have them.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


def runner_script() -> str:
    """Find the runner."""
    scripts = list(RUNNER.glob("dist/index.js"))
    if not scripts:
        not_installed("The conformance runner")
    return str(scripts[0])


async def known_scenarios(node: str, heading: str) -> dict[str, set[str]]:
    """Ask the runner which scenarios it has below a heading, and for which revisions."""
    done = await anyio.run_process([node, runner_script(), "list"], stdin=subprocess.DEVNULL)
    part = done.stdout.decode().partition(f"{heading} scenarios")[2].partition("\n\n")[0]
    return {
        name: set(tags.split(",")) for name, tags in re.findall(r"^  - (\S+) \[(\S+)\]", part, re.MULTILINE)
    }


async def run(personal_app: PersonalApp, node: str, folder: Path, *options: str) -> tuple[int, str]:
    """Run scenarios on our server; the answer is the runner's exit code, and what it said."""
    await personal_app.stop()
    # The runner cannot send a secret, and asks no one for consent.
    await personal_app.start(
        no_local_auth=True,
        nextcloud_mcp_secret=None,
        nextcloud_username="alice",
        nextcloud_app_password="alice",
    )
    assert personal_app.parts
    add_fixtures(personal_app.parts)
    command = [node, runner_script(), "server", "--url", f"{personal_app.url}/mcp", *options]
    with anyio.fail_after(300):
        done = await anyio.run_process(command, stdin=subprocess.DEVNULL, check=False, cwd=folder)
    return done.returncode, done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_official_scenario_passes_or_has_a_reason(
    personal_app: PersonalApp, node: str, tmp_path: Path, revision: str
) -> None:
    expected = str(EXPECTED_FAILURES / f"{revision}.yml")
    options = ("--suite", "all", "--spec-version", revision, "--expected-failures", expected)

    code, said = await run(personal_app, node, tmp_path, *options)

    assert code == 0, said
    known = await known_scenarios(node, "Server")
    passed = dict(re.findall(r"^[✓✗] ([\w-]+): (\d+) passed", said, re.MULTILINE))
    assert passed.keys() == {name for name, revisions in known.items() if revision in revisions}, said
    # A scenario that finds nothing to check fails nothing.
    idle = {name for name, count in passed.items() if count == "0"}
    assert idle <= excused(revision), said


async def test_an_expected_failure_that_passes_after_all_fails_the_run(
    personal_app: PersonalApp, node: str, tmp_path: Path
) -> None:
    outdated = tmp_path / "outdated.yml"
    outdated.write_text("server:\n  - ping\n", encoding="utf-8")
    options = ("--scenario", "ping", "--spec-version", "2025-11-25", "--expected-failures", str(outdated))

    code, said = await run(personal_app, node, tmp_path, *options)

    assert code == 1, said
    assert "tale" in said


def entries(revision: str) -> list[str]:
    lines = (EXPECTED_FAILURES / f"{revision}.yml").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.lstrip().startswith("-")]


def excused(revision: str) -> set[str]:
    return {entry.split()[1].partition(":")[0] for entry in entries(revision)}


def test_every_expected_failure_has_a_reason() -> None:
    every = [entry for revision in REVISIONS for entry in entries(revision)]

    assert every
    assert [entry for entry in every if not ENTRY.match(entry)] == []
