"""Tries inside a worker what a document with control over it would try; for `doctor` and the tests."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from nextcloud_mcp_server.documents import process
from nextcloud_mcp_server.documents.isolation import isolate
from nextcloud_mcp_server.documents.worker import limit, limits_of_system

_SECONDS: Final = 20
#: The worker's command, with this module in place of the worker.
COMMAND: Final = (
    *process.COMMAND[:3],
    process.COMMAND[3].replace(
        "worker import main; main(sys.argv[1])", "isolation_check import main; main()"
    ),
)


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _own() -> None:
    """Become the receiver of the signals of a pipe; another process could be it as well (fcntl(2), F_SETOWN)."""
    fcntl = import_module("fcntl")
    fcntl.fcntl(1, fcntl.F_SETOWN, os.getpid())


#: The attempts, each with what a worker without that restriction could do.
ATTEMPTS: Final[dict[str, Callable[[], object]]] = {
    "read files of this user": lambda: os.listdir(process.TOP),  # noqa: PTH208 - the plainest way to ask
    "read this server's environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "open network connections": socket.socket,
    "start other processes": _fork,
    "signal other processes": lambda: os.kill(os.getppid(), 0),
    "let the kernel signal other processes": _own,
}


def open_ways() -> list[str]:
    """Start a worker, and return the attempts that succeed although isolation should prevent them.

    For a worker that does not answer, return all of them.
    """
    try:
        answer = subprocess.run(  # noqa: S603 - our own command
            COMMAND, env={}, cwd=process.TOP, capture_output=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return list(ATTEMPTS)
    return [way for way in ATTEMPTS if way in answer.stdout.decode("utf-8", "replace").splitlines()]


def main() -> None:
    """Isolate this process like a worker, try everything, and print what was possible."""
    limit(limits_of_system())
    isolate()
    for way, attempt in ATTEMPTS.items():
        try:
            attempt()
        except (OSError, AttributeError, ImportError):
            continue
        sys.stdout.write(f"{way}\n")
