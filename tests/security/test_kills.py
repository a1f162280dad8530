"""Bad luck: the server is killed somewhere on the way of two people. Their next try must simply work."""

import sys
from pathlib import Path

import pytest

from tests.kills import play
from tests.town import open_town

KILLS = 6


@pytest.mark.skipif(sys.platform == "win32", reason="servers are forked and killed by signals")
async def test_a_server_killed_anywhere_costs_nobody_more_than_another_try(tmp_path: Path) -> None:
    async with open_town(tmp_path) as town:
        toll = await play(town, KILLS, seed=3)

    assert toll.harmless, toll
    assert toll.kills == KILLS
    assert toll.asked_anew <= KILLS
