"""Runs Inspector's command line: one command after the other on a connection that stays open."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import anyio


class Mcpdo:
    """One home folder of `mcpdo`, with its results."""

    def __init__(self, command: list[str], home: Path) -> None:
        self._command = command
        self._environment = os.environ | {
            "HOME": str(home),
            "USERPROFILE": str(home),
            "MCP_INSPECTOR_DAEMON_DIR": str(home),
            "MCP_INSPECTOR_DAEMON_TOKEN": "a-token-of-the-tests-0123456789",
            "MCP_INSPECTOR_SECRET_STORE": "file",
        }

    async def __call__(self, *arguments: str) -> dict[str, Any]:
        """Run a command and return what it prints, including an error."""
        with anyio.fail_after(60):
            done = await anyio.run_process(
                [*self._command, "--format", "json", *arguments],
                stdin=subprocess.DEVNULL,
                check=False,
                env=self._environment,
            )
        text = done.stdout.decode() or done.stderr.decode()
        answer, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
        return answer

    def stop(self) -> None:
        """End the background process with its connections."""
        subprocess.run(
            [*self._command, "daemon", "stop"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=self._environment,
            timeout=30,
        )
