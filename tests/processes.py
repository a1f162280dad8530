"""Server processes on one database and a Nextcloud behind real sockets; see tests/refresh_worker.py."""

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from nextcloud_mcp_server.storage.engine import file_url
from tests.oauth_fixtures import Office

ROOT = Path(__file__).parents[1]


@dataclass
class Worker:
    """One process."""

    process: Process
    answers: BufferedByteReceiveStream

    async def order(self, at: datetime, *, trap: str | None = None, name: str = "alice") -> None:
        """Let it start a call at that time."""
        await self.write({"at": at.isoformat(), "trap": trap, "name": name})

    async def answer(self) -> dict[str, str]:
        """Wait for the result of a call."""
        with anyio.fail_after(200):
            return json.loads(await self.answers.receive_until(b"\n", 10_000))

    async def call(self, at: datetime, *, name: str = "alice") -> dict[str, str]:
        """Let it make a call, and return the result."""
        await self.order(at, name=name)
        return await self.answer()

    async def stopped(self) -> None:
        """Wait until it is stopped by SIGSTOP."""
        with anyio.fail_after(200):
            await anyio.to_thread.run_sync(os.waitpid, self.process.pid, os.WUNTRACED)

    def thaw(self) -> None:
        """Continue a stopped process."""
        os.kill(self.process.pid, signal.SIGCONT)

    async def write(self, message: dict[str, Any]) -> None:
        """Send it one line."""
        assert self.process.stdin is not None
        await self.process.stdin.send(json.dumps(message).encode() + b"\n")


@asynccontextmanager
async def open_workers(
    office: Office, nextcloud_url: str, count: int, *, keys: list[str]
) -> AsyncGenerator[list[Worker]]:
    """Start processes; they are ended with the block."""
    settings = {
        "keys": keys,
        "database": file_url(office.harness.folder / "state.db"),
        "nextcloud": nextcloud_url,
        "client_id": office.client.client_id,
        "client_secret": office.client.client_secret.get_secret_value(),
    }
    workers: list[Worker] = []
    try:
        for _ in range(count):
            process = await anyio.open_process(
                [sys.executable, "-m", "tests.refresh_worker"], cwd=ROOT, stderr=None
            )
            assert process.stdout is not None
            worker = Worker(process, BufferedByteReceiveStream(process.stdout))
            await worker.write(settings)
            workers.append(worker)
        yield workers
    finally:
        with anyio.CancelScope(shield=True):
            for worker in workers:
                if worker.process.returncode is None:
                    worker.process.kill()
                await worker.process.aclose()
