"""Bad luck: the server is killed somewhere on the way of two users, or clients. Their next try must simply work."""

import sys
from pathlib import Path

import pytest

from tests.crash_harness import play
from tests.load_cluster import open_cluster
from tests.sign_in_crash_harness import play as play_sign_ins

pytestmark = pytest.mark.process

KILLS, SIGN_IN_KILLS = 6, 2

posix = pytest.mark.skipif(sys.platform == "win32", reason="servers are forked and killed by signals")


@posix
async def test_a_server_killed_anywhere_costs_no_user_more_than_another_try(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        toll = await play(cluster, KILLS, seed=3)

    assert toll.harmless, toll
    assert toll.kills == KILLS
    assert toll.asked_anew <= KILLS


@posix
async def test_a_server_killed_anywhere_costs_no_client_more_than_another_sign_in(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        toll = await play_sign_ins(cluster, SIGN_IN_KILLS, seed=4, at_once=1)

    assert toll.harmless, toll
    assert toll.kills == SIGN_IN_KILLS
    assert toll.began_anew + toll.asked <= SIGN_IN_KILLS
