"""A real browser for the real pages: Debian's Chromium, controlled by playwright."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.e2e.single_user_server import SingleUserServer, chromium_options, raised
from tests.node import NODE_MODULES, missing, not_installed

AXE = NODE_MODULES / "axe-core" / "axe.min.js"


@pytest.fixture(scope="session")
def installed() -> None:
    if shutil.which("chromium") is None:
        missing("Chromium is not installed (apt-get install chromium)")


# Not for the session: while the synchronous playwright runs, no test can have an event loop of its own.
@pytest.fixture(scope="module")
def chromium(installed: None) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**chromium_options())
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    if not AXE.is_file():
        not_installed("axe-core")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture
def harness() -> Iterator[SingleUserServer]:
    with raised() as built:
        yield built
