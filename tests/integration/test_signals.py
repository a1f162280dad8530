"""A command that a signal ends takes with it what it has started, also a program that does not end by itself."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nextcloud_mcp_server.settings.environment import child_environment
from tests.integration.stdio_app import ROOT

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
]

#: It writes its process id into a file, and goes on when its input is closed and when it is told to end.
STUBBORN = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        answer = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "stubborn", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
        with open(sys.argv[1] + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    time.sleep(1)
"""
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


@pytest.fixture
def pid_file(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "pid"
    arguments = json.dumps(["-c", STUBBORN, str(file)])
    (tmp_path / "mcp.toml").write_text(
        f"[server.one]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n", encoding="utf-8"
    )
    yield file
    if file.exists() and is_there(int(file.read_text())):
        os.kill(int(file.read_text()), signal.SIGKILL)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("command", ["bridge", "client"])
def test_nothing_is_left_of_a_command_that_a_signal_ends(
    tmp_path: Path, pid_file: Path, command: str, name: str
) -> None:
    config = ["--config", str(tmp_path / "mcp.toml")]
    words = ["bridge", *config, "one"] if command == "bridge" else ["client", *config, "ping", "one"]
    number = signal.Signals[name]
    with subprocess.Popen(
        [sys.executable, "-m", "nextcloud_mcp_server", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment({"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path)}),
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        wait_for(pid_file)
        process.send_signal(number)
        # Its input stays open.
        code = process.wait(30)
        process.stdin.close()
        assert process.stderr is not None
        said = process.stderr.read()

    assert code == (0 if command == "bridge" else 128 + number)
    assert b"Traceback" not in said
    assert not is_there(int(pid_file.read_text()))


def wait_for(file: Path) -> None:
    ends_at = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < ends_at
        time.sleep(0.02)
