"""A PostgreSQL of a test's own, which it may stop, kill and start again."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

#: `fast` ends sessions with an error first, `immediate` is like a crash: no session is told anything.
Shutdown = Literal["fast", "immediate"]


class OwnPostgres:
    """A server on a socket in a folder of its own, and on no port.

    What it has committed survives every shutdown, but not a crash of the machine.
    """

    def __init__(self, tools: Path, folder: Path) -> None:
        self._tools, self._folder = tools, folder
        self._call("initdb", "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--no-sync")

    @property
    def url(self) -> str:
        """The address of its database, running or not."""
        return f"postgresql://postgres@/postgres?host={self._folder}"

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        options = f"-c listen_addresses='' -c unix_socket_directories='{self._folder}' -c fsync=off"
        self._call(
            "pg_ctl", "--log", f"{self._folder}/log", "--wait", "--silent", "--options", options, "start"
        )

    def stop(self, shutdown: Shutdown) -> None:
        """Stop it, and wait until it has ended."""
        self._call("pg_ctl", "--mode", shutdown, "--wait", "--silent", "stop")

    def _call(self, tool: str, *arguments: str) -> None:
        # PostgreSQL refuses to run as root.
        become = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        command = [*become, str(self._tools / tool), "--pgdata", f"{self._folder}/data", *arguments]
        # Not captured: the server would keep the pipe open.
        subprocess.run(command, cwd="/", check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def own_postgres() -> Generator[OwnPostgres]:
    """Run a PostgreSQL, and remove it at the end; skips the test where none is installed."""
    tools = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = str(tools[-1]) if tools else shutil.which("initdb")
    if found is None:
        pytest.skip("needs PostgreSQL: install it (Debian: apt-get install postgresql)")
    # Below /tmp: a socket's path has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="nextcloud-mcp-own-", dir="/tmp"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    try:
        own = OwnPostgres(Path(found).parent, folder)
        own.start()
        try:
            yield own
        finally:
            if (folder / "data" / "postmaster.pid").exists():
                own.stop("immediate")
    finally:
        shutil.rmtree(folder)
