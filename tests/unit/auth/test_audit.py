import anyio
import pytest

from nextcloud_mcp_server.auth import audit as module
from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.errors import StorageError
from tests.auth_fixtures import Process, ProcessHost


async def note(log: AuditLog, harness: ProcessHost, action: str = "read", *, now: bool = False) -> None:
    await log.record(harness.caller, action=action, result="ok", detail="note_id=1", request_id="r", now=now)


async def written(process: Process, harness: ProcessHost) -> list[str]:
    return [entry.action for entry in await process.database.audit.recent(harness.caller.principal, 500)]


async def test_reads_wait_and_a_change_writes_them_too(harness: ProcessHost, process: Process) -> None:
    await note(process.audit, harness)
    before = await written(process, harness)

    await note(process.audit, harness, "create", now=True)

    assert before == []
    assert sorted(await written(process, harness)) == ["create", "read"]


async def test_a_full_batch_is_written_at_once(harness: ProcessHost, process: Process) -> None:
    for _ in range(module.BATCH):
        await note(process.audit, harness)

    assert len(await written(process, harness)) == module.BATCH


async def test_writing_remembers_when_the_client_was_last_used(
    harness: ProcessHost, process: Process
) -> None:
    await harness.connect(process)
    harness.clock.forward(3600)

    await note(process.audit, harness, now=True)

    grant = await process.grant(harness.caller)
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.last_used_at == harness.clock()


async def test_nothing_to_write_writes_nothing(harness: ProcessHost, process: Process) -> None:
    await process.audit.flush()

    assert await written(process, harness) == []


async def test_what_is_left_is_written_when_the_server_stops(harness: ProcessHost, process: Process) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(process.audit.run)
        await anyio.lowlevel.checkpoint()
        await note(process.audit, harness)
        group.cancel_scope.cancel()

    assert await written(process, harness) == ["read"]


async def test_reads_are_written_a_little_later(harness: ProcessHost, process: Process) -> None:
    log = AuditLog(process.database, clock=harness.clock, flush_seconds=0)
    async with anyio.create_task_group() as group:
        group.start_soon(log.run)
        await note(log, harness)
        with anyio.fail_after(60):
            while not await written(process, harness):  # noqa: ASYNC110 - another task gives no event for it
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()

    assert await written(process, harness) == ["read"]


async def test_a_cancelled_call_loses_no_entry(harness: ProcessHost, process: Process) -> None:
    await note(process.audit, harness, "earlier")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await note(process.audit, harness, "create", now=True)

    await process.audit.flush()

    assert sorted(await written(process, harness)) == ["create", "earlier"]


async def test_entries_that_cannot_be_written_are_kept_and_written_later(
    harness: ProcessHost, process: Process
) -> None:
    with harness.failing("INSERT ON audit"), pytest.raises(StorageError):
        await note(process.audit, harness, "create", now=True)

    await process.audit.flush()

    assert await written(process, harness) == ["create"]


async def test_the_background_goes_on_after_a_failure(
    harness: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    await note(process.audit, harness)
    with harness.failing("INSERT ON audit"):
        await stop_at_once(process)
    await stop_at_once(process)

    assert "the audit could not be written" in caplog.text
    assert await written(process, harness) == ["read"]


async def test_a_failure_that_stays_is_logged_once_and_the_next_one_again(
    harness: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        await note(process.audit, harness)
        with harness.failing("INSERT ON audit"):
            for _ in range(3):
                await stop_at_once(process)
        await stop_at_once(process)

    assert caplog.text.count("the audit could not be written") == 2


async def stop_at_once(process: Process) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(process.audit.run)
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()


async def test_entries_that_can_never_be_written_do_not_fill_the_memory(
    harness: ProcessHost, process: Process
) -> None:
    log = AuditLog(process.database, clock=harness.clock, most_waiting=2)
    for action in ("first", "second"):
        await note(log, harness, action)
    with harness.failing("INSERT ON audit"), pytest.raises(StorageError):
        await note(log, harness, "third", now=True)

    await log.flush()

    assert sorted(await written(process, harness)) == ["second", "third"]
