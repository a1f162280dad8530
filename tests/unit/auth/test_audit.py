import anyio
import pytest

from nextcloud_mcp_server.auth import audit as module
from nextcloud_mcp_server.auth.audit import AuditLog
from nextcloud_mcp_server.errors import StorageError
from tests.auth_fixtures import Process, ProcessHost


async def note(log: AuditLog, stage: ProcessHost, action: str = "read", *, now: bool = False) -> None:
    await log.record(stage.caller, action=action, result="ok", detail="note_id=1", request_id="r", now=now)


async def written(process: Process, stage: ProcessHost) -> list[str]:
    return [entry.action for entry in await process.database.audit.recent(stage.caller.principal, 500)]


async def test_reads_wait_and_a_change_writes_them_too(stage: ProcessHost, process: Process) -> None:
    await note(process.audit, stage)
    before = await written(process, stage)

    await note(process.audit, stage, "create", now=True)

    assert before == []
    assert sorted(await written(process, stage)) == ["create", "read"]


async def test_a_full_batch_is_written_at_once(stage: ProcessHost, process: Process) -> None:
    for _ in range(module.BATCH):
        await note(process.audit, stage)

    assert len(await written(process, stage)) == module.BATCH


async def test_writing_remembers_when_the_client_was_last_used(stage: ProcessHost, process: Process) -> None:
    await stage.connect(process)
    stage.clock.forward(3600)

    await note(process.audit, stage, now=True)

    grant = await process.grant(stage.caller)
    assert grant is not None
    assert grant.permission is not None
    assert grant.permission.last_used_at == stage.clock()


async def test_nothing_to_write_writes_nothing(stage: ProcessHost, process: Process) -> None:
    await process.audit.flush()

    assert await written(process, stage) == []


async def test_what_is_left_is_written_when_the_server_stops(stage: ProcessHost, process: Process) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(process.audit.run)
        await anyio.lowlevel.checkpoint()
        await note(process.audit, stage)
        group.cancel_scope.cancel()

    assert await written(process, stage) == ["read"]


async def test_reads_are_written_a_little_later(stage: ProcessHost, process: Process) -> None:
    log = AuditLog(process.database, clock=stage.clock, flush_seconds=0)
    async with anyio.create_task_group() as group:
        group.start_soon(log.run)
        await note(log, stage)
        with anyio.fail_after(60):
            while not await written(process, stage):  # noqa: ASYNC110 - another task gives no event for it
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()

    assert await written(process, stage) == ["read"]


async def test_a_cancelled_call_loses_no_entry(stage: ProcessHost, process: Process) -> None:
    await note(process.audit, stage, "earlier")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await note(process.audit, stage, "create", now=True)

    await process.audit.flush()

    assert sorted(await written(process, stage)) == ["create", "earlier"]


async def test_entries_that_cannot_be_written_are_kept_and_written_later(
    stage: ProcessHost, process: Process
) -> None:
    with stage.failing("INSERT ON audit"), pytest.raises(StorageError):
        await note(process.audit, stage, "create", now=True)

    await process.audit.flush()

    assert await written(process, stage) == ["create"]


async def test_the_background_goes_on_after_a_failure(
    stage: ProcessHost, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    await note(process.audit, stage)
    with stage.failing("INSERT ON audit"):
        await stop_at_once(process)
    await stop_at_once(process)

    assert "the audit could not be written" in caplog.text
    assert await written(process, stage) == ["read"]


async def stop_at_once(process: Process) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(process.audit.run)
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()


async def test_entries_that_can_never_be_written_do_not_fill_the_memory(
    stage: ProcessHost, process: Process
) -> None:
    log = AuditLog(process.database, clock=stage.clock, most_waiting=2)
    for action in ("first", "second"):
        await note(log, stage, action)
    with stage.failing("INSERT ON audit"), pytest.raises(StorageError):
        await note(log, stage, "third", now=True)

    await log.flush()

    assert sorted(await written(process, stage)) == ["second", "third"]
