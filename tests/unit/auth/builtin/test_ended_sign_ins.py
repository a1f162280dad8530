from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin import ended_sign_ins
from nextcloud_mcp_server.auth.builtin.ended_sign_ins import EndedSignIns
from nextcloud_mcp_server.auth.verifier import Bearer
from nextcloud_mcp_server.errors import StorageError
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


async def test_a_database_that_cannot_be_read_is_asked_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_sign_ins, "LOOK_SECONDS", 0.01)
    streams, looks = Streams(), list[int]()
    streams.open = [await desk.tokens.verify(access_of(await desk.issue()))]

    def fails_once() -> list[Bearer]:
        looks.append(1)
        if len(looks) == 1:
            raise StorageError("The database is away.")
        return streams.open

    ended = EndedSignIns(desk.database.oauth_tokens, streams=fails_once, end=streams.end)
    await desk.tokens.end(ALICE, client_id=CLIENT)
    async with anyio.create_task_group() as group:
        group.start_soon(ended.run)
        with anyio.fail_after(60):
            while streams.open:  # noqa: ASYNC110 - streams end without an event
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()

    assert len(looks) >= 2
