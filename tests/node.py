"""Node, for what others wrote in JavaScript."""

import os
import shutil
import subprocess
from typing import NoReturn

import pytest

OLDEST_NODE = 22


def missing(what: str) -> NoReturn:
    """Skip with the reason, or fail where nothing may be skipped."""
    if os.environ.get("CI_NO_SKIPS") == "1":
        pytest.fail(what)
    pytest.skip(what)


def find_node() -> str:
    """Find a Node that is new enough."""
    found = shutil.which("node")
    if found is None:
        missing("Node is not installed")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().lstrip("v").split(".")[0]) < OLDEST_NODE:
        missing(f"Node {OLDEST_NODE} or newer is needed; this is {version.strip()}")
    return found
