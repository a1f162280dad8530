"""What Nextcloud gives once is kept until the database takes it."""

import logging

import pytest

from nextcloud_mcp_server.auth import patience
from nextcloud_mcp_server.auth.patience import patiently
from nextcloud_mcp_server.errors import StorageError, StorageUnavailable


class Away:
    """A database that fails some times, and then takes what it is given."""

    def __init__(self, *failures: StorageError) -> None:
        self._failures = list(failures)
        self.tries = 0

    async def store(self) -> str:
        self.tries += 1
        if self._failures:
            raise self._failures.pop(0)
        return "stored"


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_FIRST_PAUSE_SECONDS", 0.0)


async def test_it_is_stored_as_soon_as_the_database_is_back(caplog: pytest.LogCaptureFixture) -> None:
    away = Away(*[StorageUnavailable("PostgreSQL cannot be used.")] * 5)

    with caplog.at_level(logging.WARNING):
        outcome = await patiently(away.store)

    assert outcome == "stored"
    assert away.tries == 6
    assert [record.getMessage() for record in caplog.records] == [
        "what Nextcloud gave is kept until the database takes it: PostgreSQL cannot be used."
    ]


async def test_what_was_stored_although_the_answer_was_lost_is_not_stored_twice() -> None:
    away, looks = (
        Away(StorageUnavailable("The connection broke."), StorageUnavailable("Not yet.")),
        [False, True],
    )

    async def done() -> str:
        return "stored before" if looks.pop(0) else ""

    outcome = await patiently(away.store, done=done)

    assert outcome == "stored before"
    assert away.tries == 2


async def test_what_the_database_will_never_take_is_not_tried_again() -> None:
    away = Away(StorageError("A value is refused."))

    with pytest.raises(StorageError, match="refused"):
        await patiently(away.store)

    assert away.tries == 1


async def test_after_the_time_limit_the_caller_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "STORE_SECONDS", -1.0)
    away = Away(StorageUnavailable("The disk is full."))

    with pytest.raises(StorageUnavailable, match="full"):
        await patiently(away.store)

    assert away.tries == 1
