import logging
import os
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Undo what a test's command set up, so that the next test sees the log lines it asks for."""
    root, ours = logging.getLogger(), logging.getLogger("nextcloud_mcp_server")
    handlers, level, our_level = list(root.handlers), root.level, ours.level
    with warnings.catch_warnings():
        yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(our_level)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where everything is installed, a skipped test is a hole: fail, and let `-rs` say which."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped") if reporter is not None else None
    if os.environ.get("CI_NO_SKIPS") and skipped and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
