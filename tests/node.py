"""Finds Node and its packages, for third-party JavaScript."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

OLDEST_NODE = 22
#: The packages of `tests/package.json`, where `npm ci --prefix tests` installs them. Scripts in folders below
#: `tests` find their imports here without configuration.
NODE_MODULES = Path(__file__).parent / "node_modules"


def missing(what: str) -> NoReturn:
    """Skip with the reason, or fail where skipping is not allowed."""
    if os.environ.get("CI_NO_SKIPS") == "1":
        pytest.fail(what)
    pytest.skip(what)


def not_installed(what: str) -> NoReturn:
    """Skip, or fail, for a missing package of `NODE_MODULES`."""
    missing(f"{what} is not installed (npm ci --prefix tests --ignore-scripts)")


def find_node() -> str:
    """Return a Node that is new enough."""
    found = shutil.which("node")
    if found is None:
        missing("Node is not installed")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().lstrip("v").split(".")[0]) < OLDEST_NODE:
        missing(f"Node {OLDEST_NODE} or newer is needed; this is {version.strip()}")
    return found
