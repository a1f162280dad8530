"""Installs third-party clients below `.work`, each in its own environment, as pinned in `foreign`.

An environment is created once and kept until its pins change. Where that fails, the tests that need it report why.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.integration.stdio_app import ROOT
from tests.node import find_node, missing

FOREIGN = Path(__file__).parent / "foreign"
INSTALLED = ROOT / ".work" / "foreign"
LOCKED = ("package.json", "package-lock.json")


@contextmanager
def _alone(name: str) -> Generator[None]:
    """Let one test process install while the others wait."""
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
        said = " ".join((done.stderr or done.stdout).split())
        missing(f"{what} cannot be installed: {said[:300]} … {said[-300:]}")


def _is_as_pinned(folder: Path, pins: Iterable[Path]) -> tuple[Path, str]:
    marks = hashlib.sha256(b"".join(pin.read_bytes() for pin in pins)).hexdigest()
    return folder / "installed-pins", marks


@cache
def python_of(name: str) -> Path:
    """Return a Python with the packages of `requirements/<name>.txt`."""
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


def _from_npm(what: str, pins: Path, folder: Path, *quiet: str) -> None:
    """Install the pinned packages of a folder, once."""
    npm = shutil.which("npm")
    if npm is None:
        missing("npm is not installed")
    locked = [pin for name in LOCKED if (pin := pins / name).is_file()]
    mark, wanted = _is_as_pinned(folder, locked)
    folder.mkdir(exist_ok=True)
    if mark.is_file() and mark.read_text() == wanted:
        return
    for pin in locked:
        shutil.copy(pin, folder)
    # The terminal assistants have no lock file: mirrors of npm lack their programs for some platforms, and `npm ci`
    # needs all of them. The versions are exact, and an assistant's package contains everything.
    how = ["ci"] if len(locked) == len(LOCKED) else ["install", "--no-package-lock"]
    _run(what, npm, *how, *quiet, "--no-audit", "--no-fund", "--loglevel=error", folder=folder)
    mark.write_text(wanted)


@cache
def node_clients() -> tuple[str, Path]:
    """Return Node, and the folder with its clients and the scripts that drive them."""
    node, folder = find_node(), INSTALLED / "npm"
    with _alone("npm"):
        _from_npm("the clients from npm", FOREIGN, folder, "--ignore-scripts")
        for script in FOREIGN.glob("*.mjs"):
            shutil.copy(script, folder)
    return node, folder


@cache
def assistant_program(name: str) -> list[str]:
    """Return the command of a terminal assistant."""
    find_node()
    folder = INSTALLED / "assistants"
    with _alone("assistants"):
        # With their install scripts, which put the program for this machine in place.
        _from_npm("the assistants from npm", FOREIGN / "assistants", folder)
    return [str(folder / "node_modules" / ".bin" / name)]
