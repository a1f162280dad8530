"""Installs the clients that others wrote, each in an environment of its own below `.work`, as pinned in `foreign`.

Made once and kept, until its pins change. Where it cannot be made, the tests that need it say why.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.integration.computer import ROOT
from tests.node import find_node, missing

FOREIGN = Path(__file__).parent / "foreign"
INSTALLED = ROOT / ".work" / "foreign"
LOCKED = ("package.json", "package-lock.json")


@contextmanager
def _alone(name: str) -> Generator[None]:
    """Let one test process install; the others wait for it."""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / f"{name}.lock").open("w") as held:
        if sys.platform != "win32":
            import fcntl  # noqa: PLC0415 - not on Windows

            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _run(what: str, *command: str, folder: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=570,
            cwd=folder,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        missing(f"{what} cannot be installed: {error}")
    if done.returncode != 0:
        missing(f"{what} cannot be installed: {(done.stderr or done.stdout).strip()[-300:]}")


def _is_as_pinned(folder: Path, pins: Iterable[Path]) -> tuple[Path, str]:
    marks = hashlib.sha256(b"".join(pin.read_bytes() for pin in pins)).hexdigest()
    return folder / "installed-pins", marks


@cache
def python_of(name: str) -> Path:
    """Give a Python that has the packages of `requirements/<name>.txt`."""
    folder, pins = INSTALLED / name, FOREIGN / "requirements" / f"{name}.txt"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    mark, wanted = _is_as_pinned(folder, [pins])
    with _alone(name):
        if mark.is_file() and mark.read_text() == wanted:
            return python
        if (uv := shutil.which("uv")) is not None:
            _run(name, uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
            packages = [uv, "pip", "install", "--quiet", "--python", str(python)]
        else:
            _run(name, sys.executable, "-m", "venv", "--clear", str(folder))
            packages = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run(name, *packages, "--require-hashes", "-r", str(pins))
        mark.write_text(wanted)
    return python


@cache
def node_clients() -> tuple[str, Path]:
    """Give Node, and the folder with its clients and the scripts that play them."""
    node, folder = find_node(), INSTALLED / "npm"
    npm = shutil.which("npm")
    if npm is None:
        missing("npm is not installed")
    pins = [FOREIGN / name for name in LOCKED]
    mark, wanted = _is_as_pinned(folder, pins)
    with _alone("npm"):
        folder.mkdir(exist_ok=True)
        for script in (*pins, *FOREIGN.glob("*.mjs")):
            shutil.copy(script, folder)
        if not mark.is_file() or mark.read_text() != wanted:
            quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
            _run("the clients from npm", npm, "ci", *quiet, folder=folder)
            mark.write_text(wanted)
    return node, folder
