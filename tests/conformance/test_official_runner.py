"""The official conformance runner, on what it can ask a server without tools made for it.

Most of its scenarios call fixture tools, resources or prompts by name (`test_simple_text`,
`test://static-text` …), which a server for Nextcloud does not have; those are not listed here.
"""

import re
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.integration.computer import ROOT
from tests.integration.world import World
from tests.node import missing

RUNNER = ROOT / "node_modules" / "@modelcontextprotocol" / "conformance"

BOTH = {
    "dns-rebinding-protection",
    "prompts-list",
    "resources-list",
    "server-sse-multiple-streams",
    "tools-call-error",
    "tools-call-simple-text",
    "tools-list",
}
EXPECTED = {
    "2025-11-25": BOTH | {"ping", "server-initialize", "server-session-lifecycle"},
    "2026-07-28": BOTH
    | {
        "caching",
        "http-header-validation",
        "input-required-result-ignore-extra-params",
        "input-required-result-missing-input-response",
        "input-required-result-unsupported-methods",
        "input-required-result-validate-input",
        "sep-2164-resource-not-found",
    },
}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_official_scenarios_that_need_no_fixtures_pass(
    world: World, node: str, tmp_path: Path, revision: str
) -> None:
    scripts = list(RUNNER.glob("dist/index.js"))
    if not scripts:
        missing("The conformance runner is not installed (npm ci --ignore-scripts)")
    await world.stop()
    # The runner cannot send a secret.
    await world.start(no_local_auth=True, nextcloud_mcp_secret=None)
    command = [node, str(scripts[0]), "server", "--url", f"{world.url}/mcp", "--requirements", revision]
    with anyio.fail_after(120):
        done = await anyio.run_process(command, stdin=subprocess.DEVNULL, check=False, cwd=tmp_path)

    said = done.stdout.decode()
    passed = set(re.findall(r"^✓ ([\w-]+):", said, re.MULTILINE))
    assert not EXPECTED[revision] - passed, said
