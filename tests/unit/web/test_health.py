import json
import logging
from collections.abc import Callable, Mapping

import anyio
import pytest
from starlette.requests import Request

from nextcloud_mcp_server.errors import StorageError
from nextcloud_mcp_server.telemetry import metrics
from nextcloud_mcp_server.web import health
from nextcloud_mcp_server.web.health import Readiness
from nextcloud_mcp_server.web.stopping import StopState
from tests.counted import Counted


class Part:
    """A part that works or fails, as a test says, and counts how often it is tried."""

    def __init__(self, failure: str = "") -> None:
        self.failure = failure
        self.tried = 0

    async def __call__(self) -> None:
        self.tried += 1
        await anyio.lowlevel.checkpoint()
        if self.failure:
            raise StorageError(self.failure)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def asked(readiness: Readiness) -> tuple[int, Mapping[str, object]]:
    answer = await readiness.readyz(Request({"type": "http", "method": "GET", "headers": []}))
    return answer.status_code, json.loads(bytes(answer.body))


async def test_it_is_ready_if_every_part_works() -> None:
    status, body = await asked(Readiness({"database": Part(), "nextcloud": Part()}, StopState()))

    assert (status, body) == (200, {"status": "ready", "parts": {"database": "ok", "nextcloud": "ok"}})


async def test_the_part_that_fails_is_named_without_the_reason_which_the_log_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    readiness = Readiness({"database": Part("db.internal refuses."), "nextcloud": Part()}, StopState())

    status, body = await asked(readiness)

    assert (status, body["parts"]) == (503, {"database": "fails", "nextcloud": "ok"})
    assert "internal" not in json.dumps(body)
    assert "not ready, database: db.internal refuses." in caplog.messages


async def test_a_health_check_is_told_when_to_ask_again() -> None:
    answer = await Readiness({"database": Part("away")}, StopState()).readyz(
        Request({"type": "http", "method": "GET", "headers": []})
    )

    assert answer.headers["Retry-After"] == "5"


async def test_a_result_holds_for_some_seconds_and_for_everybody_who_asks_meanwhile() -> None:
    part, clock = Part(), Clock()
    readiness = Readiness({"nextcloud": part}, StopState(), monotonic=clock)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(asked, readiness)
    clock.now += 4
    await asked(readiness)

    assert part.tried == 1


async def test_it_is_ready_again_when_the_part_is_back_and_both_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    part, clock = Part("away."), Clock()
    readiness = Readiness({"database": part}, StopState(), monotonic=clock)
    statuses: list[int] = []

    with caplog.at_level(logging.WARNING):
        for failure in ("away.", "away.", ""):
            part.failure = failure
            clock.now += 5
            statuses.append((await asked(readiness))[0])

    assert statuses == [503, 503, 200]
    assert caplog.messages == ["not ready, database: away.", "ready again: database"]


async def test_a_part_that_does_not_answer_fails_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MOST_SECONDS", 0.05)

    status, body = await asked(Readiness({"nextcloud": anyio.sleep_forever, "database": Part()}, StopState()))

    assert (status, body["parts"]) == (503, {"nextcloud": "fails", "database": "ok"})


async def test_a_server_that_stops_is_not_ready_and_tries_nothing() -> None:
    part, stop_state = Part(), StopState()
    readiness = Readiness({"nextcloud": part}, stop_state)
    before, _ = await asked(readiness)

    stop_state.is_stopping = True
    status, body = await asked(readiness)

    assert before == 200
    assert (status, body) == (503, {"status": "stopping"})
    assert part.tried == 1


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not is_so():  # noqa: ASYNC110 - an exporter gives no event
            await anyio.sleep(0.01)


async def test_the_metric_of_each_part_is_kept_although_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_MEASURED_SECONDS", 0.01)
    part, clock, counted = Part("away."), Clock(), Counted()
    readiness = Readiness({"database": part, "nextcloud": Part()}, StopState(), monotonic=clock)
    database, nextcloud = ("nextcloud_mcp_ready", "database"), ("nextcloud_mcp_ready", "nextcloud")

    with metrics.exported(counted):
        async with readiness.measured():
            await until(lambda: counted.sums.get(database) == 0)
            while_away = dict(counted.sums)
            part.failure = ""
            clock.now += 5
            await until(lambda: counted.sums[database] == 1)

    assert while_away == {database: 0, nextcloud: 1}


async def test_without_metrics_nothing_is_tried_until_it_is_asked() -> None:
    part = Part()

    async with Readiness({"database": part}, StopState()).measured():
        await anyio.wait_all_tasks_blocked()

    assert part.tried == 0


async def test_a_fault_of_one_try_leaves_the_server_running(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(health, "_MEASURED_SECONDS", 0.01)
    faults, counted = [RuntimeError("a fault")], Counted()

    async def attempt() -> None:
        await anyio.lowlevel.checkpoint()
        if faults:
            raise faults.pop()

    with metrics.exported(counted):
        async with Readiness({"database": attempt}, StopState()).measured():
            await until(lambda: ("nextcloud_mcp_ready", "database") in counted.sums)

    assert counted.sums == {("nextcloud_mcp_ready", "database"): 1}
    assert "it could not be tried whether the server is ready; trying again" in caplog.messages
