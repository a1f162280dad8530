"""Node, for what others wrote in JavaScript."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

OLDEST_NODE = 22
#: What `tests/package.json` names, where `npm ci --prefix tests` has installed it. A script in a folder below `tests`
#: finds its imports here by itself.
NODE_MODULES = Path(__file__).parent / "node_modules"


def missing(what: str) -> NoReturn:
    """Skip with the reason, or fail where nothing may be skipped."""
    if os.environ.get("CI_NO_SKIPS") == "1":
        pytest.fail(what)
    pytest.skip(what)


def not_installed(what: str) -> NoReturn:
    """Skip, or fail, for a package of `NODE_MODULES` that is not there."""
    missing(f"{what} is not installed (npm ci --prefix tests --ignore-scripts)")


def find_node() -> str:
    """Find a Node that is new enough."""
    found = shutil.which("node")
    if found is None:
        missing("Node is not installed")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().lstrip("v").split(".")[0]) < OLDEST_NODE:
        missing(f"Node {OLDEST_NODE} or newer is needed; this is {version.strip()}")
    return found
