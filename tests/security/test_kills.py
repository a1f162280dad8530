"""Bad luck: the server is killed somewhere on the way of two people, or clients. Their next try must simply work."""

import sys
from pathlib import Path

import pytest

from tests.kills import play
from tests.sign_in_kills import play as play_sign_ins
from tests.town import open_town

pytestmark = pytest.mark.process

KILLS, SIGN_IN_KILLS = 6, 2

posix = pytest.mark.skipif(sys.platform == "win32", reason="servers are forked and killed by signals")


@posix
async def test_a_server_killed_anywhere_costs_nobody_more_than_another_try(tmp_path: Path) -> None:
    async with open_town(tmp_path) as town:
        toll = await play(town, KILLS, seed=3)

    assert toll.harmless, toll
    assert toll.kills == KILLS
    assert toll.asked_anew <= KILLS


@posix
async def test_a_server_killed_anywhere_costs_no_client_more_than_another_sign_in(tmp_path: Path) -> None:
    async with open_town(tmp_path) as town:
        toll = await play_sign_ins(town, SIGN_IN_KILLS, seed=4, at_once=1)

    assert toll.harmless, toll
    assert toll.kills == SIGN_IN_KILLS
    assert toll.began_anew + toll.asked <= SIGN_IN_KILLS
