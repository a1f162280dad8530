"""Metrics of a running server: on a port of their own, and only where the settings ask for them."""

import socket
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.errors import ConfigurationError, StorageError
from nextcloud_mcp_server.server import measuring
from nextcloud_mcp_server.settings import environment
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.telemetry import metrics
from tests.auth_fixtures import NEXTCLOUD, Process, ProcessHost
from tests.counted import Counted
from tests.integration.personal_app import until


def settings_of(tmp_path: Path, **overrides: object) -> Settings:
    return environment.load(**({"nextcloud_host": NEXTCLOUD, "data_dir": tmp_path} | overrides))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def no_spec(_name: str) -> None:
    return None


def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library for metrics be missing."""
    monkeypatch.setattr(measuring, "find_spec", no_spec)


def test_without_a_port_nothing_is_exported(tmp_path: Path) -> None:
    with measuring.exported(settings_of(tmp_path)):
        assert not metrics.are_exported()


def test_with_a_port_the_metrics_are_served_there(tmp_path: Path) -> None:
    port = free_port()
    with measuring.exported(settings_of(tmp_path, metrics_port=port)):
        answer = httpx2.get(f"http://127.0.0.1:{port}/metrics")

    assert answer.status_code == 200
    assert 'nextcloud_mcp_server_info{version="' in answer.text


def test_settings_with_a_port_are_refused_without_the_library_and_name_no_package_of_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking(monkeypatch)

    with (
        pytest.raises(ConfigurationError) as raised,
        measuring.exported(settings_of(tmp_path, metrics_port=free_port())),
    ):
        raise NotImplementedError

    assert "'nextcloud-mcp-server[metrics] @ git+ADDRESS'" in str(raised.value)
    assert "install nextcloud-mcp-server" not in str(raised.value)


async def counted_once(process: Process) -> Counted:
    """Count the connections of a process until they have been counted."""
    counted = Counted()
    with metrics.exported(counted):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(measuring.count_connections, process.database, seconds=0.01))
            await until(lambda: len(counted.sums) == len(("connected", "refused")))
            group.cancel_scope.cancel()
    return counted


async def test_connections_are_counted_as_connected_or_refused(harness: ProcessHost) -> None:
    process, name = await harness.process(), metrics.CONNECTIONS.name
    await harness.connect(process)

    first = await counted_once(process)
    (grant,) = await process.database.grants.all()
    await process.database.grants.mark_needs_reauth(grant.credential.id, version=grant.credential.version)
    later = await counted_once(process)

    assert first.sums == {(name, "connected"): 1, (name, "refused"): 0}
    assert later.sums == {(name, "connected"): 0, (name, "refused"): 1}


async def test_a_database_that_is_away_ends_no_counting(
    harness: ProcessHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, answers = await harness.process(), iter([StorageError("The database is away.")])
    count = process.database.grants.count_connections

    async def away_once() -> tuple[int, int]:
        for error in answers:
            raise error
        return await count()

    monkeypatch.setattr(process.database.grants, "count_connections", away_once)

    assert (await counted_once(process)).sums


async def test_without_an_exporter_the_counting_ends_at_once(harness: ProcessHost) -> None:
    process = await harness.process()

    with anyio.move_on_after(60) as waited:
        await measuring.count_connections(process.database)

    assert not waited.cancelled_caught
