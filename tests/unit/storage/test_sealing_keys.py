from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from tests.sealed_rows import Rows

Execute = Callable[..., Awaitable[list[tuple[Any, ...]]]]
Open = Callable[..., Awaitable[Database]]

SOURCE = "TOKEN_ENCRYPTION_KEYS"
NEW, OLD = SecretStr(new_key()), SecretStr(new_key())
OLD_RING, BOTH, NEW_RING = KeyRing.parse([OLD]), KeyRing.parse([NEW, OLD]), KeyRing.parse([NEW])
OLD_ID, NEW_ID = OLD_RING.ids[0], NEW_RING.ids[0]


@pytest.fixture
def keys() -> KeyRing:
    return OLD_RING


async def test_the_first_key_of_a_new_database_is_noted_once(database: Database) -> None:
    await database.sealing_keys.adopt(source=SOURCE)
    await database.sealing_keys.adopt(source=SOURCE)

    assert await database.sealing_keys.known() == {OLD_ID}


async def test_other_keys_are_refused_and_not_noted(database: Database, open_database: Open) -> None:
    await database.sealing_keys.adopt(source=SOURCE)
    other = await open_database(other_keys=NEW_RING)

    with pytest.raises(ConfigurationError, match=OLD_ID.hex()):
        await other.sealing_keys.adopt(source=SOURCE)

    assert await database.sealing_keys.known() == {OLD_ID}


async def test_rows_from_before_the_ids_were_kept_tell_their_key(
    database: Database, open_database: Open, now: Callable[[], datetime]
) -> None:
    await Rows(database, now).fill()
    other = await open_database(other_keys=NEW_RING)

    with pytest.raises(ConfigurationError, match=OLD_ID.hex()):
        await other.sealing_keys.adopt(source=SOURCE)
    await database.sealing_keys.adopt(source=SOURCE)

    assert await database.sealing_keys.known() == {OLD_ID}


async def test_a_new_key_before_the_old_one_is_noted_as_well(database: Database, open_database: Open) -> None:
    await database.sealing_keys.adopt(source=SOURCE)

    await (await open_database(other_keys=BOTH)).sealing_keys.adopt(source=SOURCE)

    assert await database.sealing_keys.known() == {OLD_ID, NEW_ID}


async def test_a_key_that_is_missing_beside_another_is_named_and_its_rows_stay(
    database: Database,
    open_database: Open,
    now: Callable[[], datetime],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await Rows(database, now).fill()
    await database.sealing_keys.adopt(source=SOURCE)
    await (await open_database(other_keys=BOTH)).sealing_keys.adopt(source=SOURCE)
    before = await database.key_rotation.counts()
    silent = list(caplog.messages)

    without = await open_database(other_keys=NEW_RING)
    await without.sealing_keys.adopt(source=SOURCE)

    assert silent == []
    [message] = caplog.messages
    assert f"keys that are not in {SOURCE}: {OLD_ID.hex()}." in message
    assert await database.key_rotation.counts() == before
    assert await database.sealing_keys.known() == {OLD_ID, NEW_ID}


async def test_after_a_rotation_the_old_key_alone_is_refused(
    database: Database, open_database: Open, now: Callable[[], datetime]
) -> None:
    await Rows(database, now).fill()
    await database.sealing_keys.adopt(source=SOURCE)
    both = await open_database(other_keys=BOTH)
    await both.sealing_keys.adopt(source=SOURCE)
    await both.key_rotation.rotate(pause=anyio.lowlevel.checkpoint, progress=lambda _: None)
    await both.sealing_keys.settle()

    assert await database.sealing_keys.known() == {NEW_ID}
    await (await open_database(other_keys=NEW_RING)).sealing_keys.adopt(source=SOURCE)
    with pytest.raises(ConfigurationError, match=NEW_ID.hex()):
        await database.sealing_keys.adopt(source=SOURCE)


async def test_a_key_that_rows_still_need_stays_noted(
    database: Database, open_database: Open, now: Callable[[], datetime]
) -> None:
    await Rows(database, now).fill()
    await database.sealing_keys.adopt(source=SOURCE)

    await (await open_database(other_keys=NEW_RING)).sealing_keys.settle()

    assert await database.sealing_keys.known() == {OLD_ID, NEW_ID}


async def test_of_two_processes_with_different_keys_one_is_refused(
    database: Database, open_database: Open
) -> None:
    refused: list[str] = []

    async def adopt(opened: Database) -> None:
        try:
            await opened.sealing_keys.adopt(source=SOURCE)
        except ConfigurationError as error:
            refused.append(str(error))

    other = await open_database(other_keys=NEW_RING)
    async with anyio.create_task_group() as group:
        group.start_soon(adopt, database)
        group.start_soon(adopt, other)

    assert len(refused) == 1
    assert len(await database.sealing_keys.known()) == 1


async def test_a_key_that_another_process_notes_meanwhile_is_noted_once(
    database: Database, open_database: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await open_database()

    async def meanwhile() -> frozenset[bytes]:
        await other.sealing_keys.adopt(source=SOURCE)
        return frozenset()

    monkeypatch.setattr(database.sealing_keys, "_of_rows", meanwhile)
    await database.sealing_keys.adopt(source=SOURCE)

    assert await database.sealing_keys.known() == {OLD_ID}
