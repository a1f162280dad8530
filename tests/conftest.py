import gc
import logging
import os
import subprocess
import warnings
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx2
import pytest
import stamina
from alembic import command
from httpx2._transports import default
from hypothesis import HealthCheck, settings

from tests.auth_fixtures import Process, ProcessHost, make_template, open_harness
from tests.compiled_once import share_compilations
from tests.kept_schema import KeptSchema
from tests.oauth_fixtures import Office, Replica, office_of
from tests.replayed_schema import ReplayedUpgrade
from tests.result_schemas import check_every_call
from tests.tracing import is_measured, untraced

# The time of an example depends on the load of the machine.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", settings.get_profile("untimed"), max_examples=10)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def no_pauses() -> Iterator[None]:
    """Requests are repeated as usual, but without the pauses between them."""
    with stamina.set_testing(True, attempts=20, cap=True):
        yield


@pytest.fixture(autouse=True)
def results_meet_their_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tool result in a test is checked against its output schema; see `result_schemas`."""
    check_every_call(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def statements_are_compiled_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        share_compilations(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def certificates_are_read_once() -> Iterator[None]:
    """Let the clients of a test share the trusted certificates: reading them takes 30 ms or more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "create_ssl_context", cache(httpx2.create_ssl_context))
        yield


@pytest.fixture(scope="session")
def kept_schema() -> KeptSchema:
    return KeptSchema()


@pytest.fixture(scope="session")
def replayed_upgrade(kept_schema: KeptSchema) -> ReplayedUpgrade:
    return ReplayedUpgrade(command.upgrade, kept_schema)


@pytest.fixture(autouse=True)
def schemas_are_planned_once(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, replayed_upgrade: ReplayedUpgrade
) -> None:
    """Create schemas from recorded statements; only tests of migrations run alembic itself."""
    if request.node.get_closest_marker("migrations") is None:
        monkeypatch.setattr(command, "upgrade", replayed_upgrade)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """Return a PostgreSQL in which the tests may create databases; `.ci/postgres` runs one."""
    server = os.environ.get("TEST_POSTGRES_URL")
    if not server:
        pytest.skip("needs PostgreSQL: install it, or name one in TEST_POSTGRES_URL")
    return server


@pytest.fixture
async def postgres_url(
    postgres_server: str, anyio_backend: str, kept_schema: KeptSchema
) -> AsyncGenerator[str]:
    """Empty the database of this test process, and return its URL."""
    name = f"nextcloud_mcp_test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    url = urlsplit(postgres_server)._replace(path=f"/{name}").geturl()
    server = await asyncpg.connect(postgres_server)
    if not await server.fetchval("SELECT true FROM pg_database WHERE datname = $1", name):
        await server.execute(f"CREATE DATABASE {name}")
    database = await asyncpg.connect(url)
    await database.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await database.close()
    yield url
    await server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    database = await asyncpg.connect(url)
    await kept_schema.keep(database)
    await database.close()
    await server.close()


@pytest.fixture(scope="session")
async def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return await make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
async def harness(tmp_path: Path, template: Path) -> AsyncGenerator[ProcessHost]:
    async with open_harness(tmp_path, template) as made:
        yield made


@pytest.fixture
async def process(harness: ProcessHost) -> Process:
    return await harness.process()


@pytest.fixture
def office(harness: ProcessHost) -> Office:
    return office_of(harness)


@pytest.fixture
async def replica(office: Office) -> Replica:
    return await office.replica()


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Undo the logging configuration of a test's command, for the log checks of the next test."""
    root, ours = logging.getLogger(), logging.getLogger("nextcloud_mcp_server")
    handlers, level, our_level = list(root.handlers), root.level, ours.level
    with warnings.catch_warnings():
        yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    for logger, before in ((root, level), (ours, our_level)):
        # Setting a level makes every logger forget which levels are on.
        if logger.level != before:
            logger.setLevel(before)


#: The folders of `make test-fast`.
_FAST = ("snapshots", "unit")
#: Tests with one of these fixtures start processes, or connect to PostgreSQL.
_FIXTURES = {
    "process": {"computer", "mcpdo", "node", "python_1_30"},
    "browser": {"chromium", "installed"},
    "postgres": {"postgres_server", "postgres_url"},
}


def _folder(path: Path) -> str:
    return path.relative_to(Path(__file__).parent).parts[0]


def _kinds(item: pytest.Item) -> Iterator[str]:
    """Yield what a test needs besides this process."""
    folder = _folder(item.path)
    function = item if isinstance(item, pytest.Function) else None
    parameters = function.callspec.params.values() if function and hasattr(function, "callspec") else ()
    asked = set(function.fixturenames) if function else set[str]()
    if folder == "e2e":
        yield "browser"
    if "postgres" in parameters:
        yield "postgres"
    yield from (kind for kind, fixtures in _FIXTURES.items() if fixtures & asked)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they need, for `-m`, and begin with those in which coverage is measured.

    What runs once in a process, such as the import of a module, would go uncounted if another test came first.
    """
    for item in items:
        for kind in _kinds(item):
            item.add_marker(kind)
    measured = {path: is_measured(path) for path in {item.path for item in items}}
    items.sort(key=lambda item: not measured[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without looking for garbage, as there is none; trace this in one worker, as it is the same in all."""
    gc.disable()
    first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    try:
        with nullcontext() if first else untraced():
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure coverage where it counts, and in processes, whose time it doubles, only if some lines run only there."""
    with pytest.MonkeyPatch.context() as patch, nullcontext() if is_measured(item.path) else untraced():
        if item.get_closest_marker("measured_processes") is None:
            patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        return (yield)


@pytest.fixture(autouse=True)
def processes_are_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test of `make test-fast` that starts a process."""
    if _folder(request.path) not in _FAST or request.node.get_closest_marker("process"):
        return

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Mark this test with @pytest.mark.process: it starts one.")

    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run twice as many workers as there are processors, since they wait for each other half of the time."""
    processors = os.cpu_count() or 1
    return processors if config.option.numprocesses == "logical" else 2 * processors


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail for skipped tests where everything is installed; `-rs` lists them."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped") if reporter is not None else None
    if os.environ.get("CI_NO_SKIPS") and skipped and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
