"""Settings are tested without those of the machine."""

import os

import pytest

from nextcloud_mcp_server.settings.names import known_variables


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name in {*known_variables(), "NEXTCLOUD_URL"} or name.startswith("NEXTCLOUD_"):
            monkeypatch.delenv(name)
