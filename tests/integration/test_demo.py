"""The demo is what a newcomer sees first: it runs in every wire form, and says so when it does not."""

import io
import subprocess
import sys
from typing import get_args

import pytest

from nextcloud_mcp_server.demo import dialect as dialects
from nextcloud_mcp_server.demo.journey import play

ON_THE_WIRE = {
    "draft": ['"code": -32000', "notifications/progress", '"status": "complete"'],
    "2025-11-25": ['"code": -32042', '"method": "notifications/elicitation/complete"'],
    "2026-07-28": ['"resultType": "input_required"', '"requestState": "', "The call was held for"],
    "text": ['"isError": true', "Open this link in a browser", "The repeated call goes through"],
}
IN_EVERY_FORM = [
    "24 tools in ",
    "Nextcloud's page “Account access”",
    "• Shopping list",
    "# Lisbon in May",
    "- [x] oat milk",
    "It was changed since it was read",
    "In the trash: Notes/Recipes/Pancakes.md",
    "the access was deleted at Nextcloud too",
    "A new link, for a new consent.",
    "All 11 steps turned out as promised",
]


def test_every_wire_form_is_played_here() -> None:
    assert set(ON_THE_WIRE) == set(get_args(dialects.Name)) == set(dialects.DIALECTS)


@pytest.mark.parametrize("dialect", list(ON_THE_WIRE))
def test_the_demo_command_plays_the_whole_journey(dialect: str) -> None:
    command = [sys.executable, "-m", "nextcloud_mcp_server", "demo", "--dialect", dialect]

    ended = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert [key for key in (*IN_EVERY_FORM, *ON_THE_WIRE[dialect]) if key not in ended.stdout] == []
    assert "\x1b" not in ended.stdout


@pytest.mark.parametrize("dialect", get_args(dialects.Name))
async def test_the_journey_ends_well_in_this_process(dialect: dialects.Name) -> None:
    out = io.StringIO()

    await play(dialect, out)

    assert "All 11 steps turned out as promised" in out.getvalue()
