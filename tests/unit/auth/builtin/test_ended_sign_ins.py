from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.ended_sign_ins import EndedSignIns
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import file_url
from tests.tokens_fixtures import ALICE, BOB, CLIENT, Desk, Moment, access_of, open_desk, refresh_of


class Streams:
    """Open streams, each by the token that opened it."""

    def __init__(self) -> None:
        self.open: list[Bearer] = []

    def tokens(self) -> list[Bearer]:
        return self.open

    def end(self, meant: Callable[[Bearer], bool]) -> None:
        self.open = [bearer for bearer in self.open if not meant(bearer)]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncGenerator[Desk]:
    keys = KeyRing.parse([SecretStr(new_key())])
    async with open_desk(file_url(tmp_path / "mcp.db"), keys, Moment()) as made:
        yield made


async def test_streams_end_with_the_sign_in_of_their_token_and_no_others(desk: Desk) -> None:
    streams = Streams()
    ended = EndedSignIns(desk.database.oauth_tokens, streams=streams.tokens, end=streams.end)
    await ended.look()
    first, second, of_bob = await desk.issue(), await desk.issue(), await desk.issue(BOB)
    refreshed = await desk.refresh(first)
    streams.open = [await desk.tokens.verify(access_of(one)) for one in (first, second, of_bob, refreshed)]
    all_of_them = list(streams.open)

    await ended.look()
    before = list(streams.open)
    await desk.tokens.revoke(refresh_of(second), client_id=CLIENT)
    await ended.look()
    after_one = list(streams.open)
    await desk.tokens.end(ALICE, client_id=CLIENT)
    await ended.look()

    assert before == all_of_them
    assert after_one == [all_of_them[0], *all_of_them[2:]]
    assert streams.open == [all_of_them[2]]
