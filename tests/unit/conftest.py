"""Isolates the tests from the settings of the machine."""

import os
from pathlib import Path

import pytest

from nextcloud_mcp_server.settings.names import known_variables


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name in {*known_variables(), "NEXTCLOUD_URL"} or name.startswith("NEXTCLOUD_"):
            monkeypatch.delenv(name)


@pytest.fixture
def own_data_dir(bare_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of the machine; data is stored below the test's own folder."""
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
