"""What is deleted with time; that the rows are the right ones is in tests/unit/storage."""

import logging
from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import pytest

from nextcloud_mcp_server.auth.retention import Retention
from nextcloud_mcp_server.errors import ElicitationRequired
from nextcloud_mcp_server.storage.records import AuditEntry
from tests.auth_fixtures import READ, Process, ProcessHost


async def log(process: Process, harness: ProcessHost, *ages: int) -> None:
    """Append audit entries of so many days ago."""
    await process.database.audit.append(
        [
            AuditEntry(
                harness.clock() - timedelta(days=age), harness.caller.principal, "local", f"{age}", "ok"
            )
            for age in ages
        ]
    )


async def actions(process: Process, harness: ProcessHost) -> list[str]:
    return [entry.action for entry in await process.database.audit.recent(harness.caller.principal, 50)]


async def ask(process: Process, harness: ProcessHost) -> ElicitationRequired:
    return await process.provisioning.ask(harness.caller, READ, grant=None)


@pytest.mark.parametrize(("days", "left"), [(0, ["1", "29", "31", "400"]), (30, ["1", "29"])])
async def test_audit_entries_are_kept_for_as_long_as_the_operator_says(
    harness: ProcessHost, process: Process, days: int, left: list[str]
) -> None:
    await log(process, harness, 400, 31, 29, 1)

    await Retention(process.database, audit_days=days, clock=harness.clock).purge()

    assert await actions(process, harness) == left


async def test_a_consent_request_is_known_for_a_week_after_its_end(
    harness: ProcessHost, process: Process
) -> None:
    asked = await ask(process, harness)
    await process.decline(asked.elicitation_id)
    retention = Retention(process.database, audit_days=0, clock=harness.clock, running=harness.clock.seconds)
    found = partial(process.database.elicitations.find, asked.elicitation_id)

    harness.clock.forward(timedelta(days=6).total_seconds())
    await retention.purge()
    assert await found() is not None

    harness.clock.forward(timedelta(days=2).total_seconds())
    await retention.purge()
    assert await found() is None


async def test_a_clock_that_jumps_ahead_deletes_nothing_before_its_time(
    harness: ProcessHost, process: Process
) -> None:
    await log(process, harness, 31, 29)
    asked = await ask(process, harness)
    await process.decline(asked.elicitation_id)
    passed = 0.0
    retention = Retention(process.database, audit_days=30, clock=harness.clock, running=lambda: passed)

    harness.clock.forward(timedelta(days=365).total_seconds())
    await retention.purge()
    assert await actions(process, harness) == ["consent", "29"]
    assert await process.database.elicitations.find(asked.elicitation_id) is not None

    passed += timedelta(days=2).total_seconds()
    await retention.purge()
    assert await actions(process, harness) == ["consent"]


async def test_a_database_that_fails_once_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
    harness: ProcessHost,
    process: Process,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "nextcloud_mcp_server")
    await log(process, harness, 40, 1)
    retention = Retention(process.database, audit_days=30, clock=lambda: datetime.now(UTC))
    moments = iter([OSError("the disk is full")])
    purge = retention.purge

    async def fail_once() -> None:
        for error in moments:
            raise error
        await purge()

    monkeypatch.setattr(retention, "purge", fail_once)
    with anyio.move_on_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(retention.run, every_seconds=0.01))
            while await actions(process, harness) != ["1"]:  # noqa: ASYNC110 - another task's work, without an event
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    assert await actions(process, harness) == ["1"]
    assert "trying again" in caplog.text
    assert "deleted 1 audit entries older than AUDIT_RETENTION_DAYS=30" in caplog.text
