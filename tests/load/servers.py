"""The measured servers, and their scenarios."""

import os
import socket
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Literal

import anyio
from anyio.abc import Process

from tests.load.client import CallFailed, Client, Result, http_client, stdio_client
from tests.load.fake_responses import NOTE_ID, PASSWORD, USER

Transport = Literal["stdio", "http"]
ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
_OURS = "from nextcloud_mcp_server.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One read: the request behind it, and the tool call of this server with the same result."""

    name: str
    method: str
    path: str
    tool: str
    arguments: Mapping[str, Any]
    depth: str = ""

    @property
    def thin_arguments(self) -> Mapping[str, Any]:
        """The arguments of the thin server's tool for the same result."""
        return {"method": self.method, "path": self.path, "depth": self.depth}


_NOTES = "/index.php/apps/notes/api/v1/notes"
_FILES = f"/remote.php/dav/files/{USER}"

GET_NOTE = Scenario("get a note", "GET", f"{_NOTES}/{NOTE_ID}", "nc_notes_get_note", {"note_id": NOTE_ID})
READ_10_KB = Scenario(
    "read 10 kB", "GET", f"{_FILES}/read10k.txt", "nc_files_read_file", {"path": "read10k.txt"}
)
LIST_100 = Scenario(
    "list a folder of 100",
    "PROPFIND",
    f"{_FILES}/folder-of-100",
    "nc_files_list_folder",
    {"path": "folder-of-100"},
    depth="1",
)
LIST_1000 = Scenario(
    "list a folder of 1,000",
    "PROPFIND",
    f"{_FILES}/folder-of-1000",
    "nc_files_list_folder",
    {"path": "folder-of-1000", "limit": 500},
    depth="1",
)
LIST_NOTES = Scenario(
    "list 2,000 notes", "GET", f"{_NOTES}?exclude=content", "nc_notes_list_notes", {"limit": 100}
)
READ_BIG = Scenario("read 200 MB", "GET", f"{_FILES}/big.txt", "nc_files_read_file", {"path": "big.txt"})
TIMED = (GET_NOTE, READ_10_KB, LIST_100)


@dataclass(frozen=True, slots=True)
class Server:
    """One server as data: its command, and its call for a scenario."""

    name: Literal["floor", "thin", "ours", "everything"]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    nextcloud: str = ""

    def command(self, transport: Transport, port: int) -> list[str]:
        """Write the command line."""
        if self.name in ("floor", "thin"):
            return [sys.executable, str(_HERE / "baseline.py"), *([str(port)] if transport == "http" else [])]
        options = ["serve", "--transport", transport, "--nextcloud", self.nextcloud]
        if transport == "http":
            options += ["--host", "127.0.0.1", "--port", str(port), "--no-local-auth"]
        return [sys.executable, "-c", _OURS, *options]

    def call(self, scenario: Scenario) -> tuple[str, Mapping[str, Any]]:
        """Return the tool and arguments for a scenario."""
        if self.name == "floor":
            return "noop", {}
        if self.name == "thin":
            return "request", scenario.thin_arguments
        return scenario.tool, scenario.arguments


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answered its first `tools/list`."""

    server: Server
    client: Client
    pid: int
    tools: Result
    start_seconds: float

    async def run(self, scenario: Scenario) -> tuple[Result, float]:
        """Run a scenario; return the result and the seconds it took."""
        return await self.client.call(*self.server.call(scenario))


def all_servers(upstream: str, data_dir: Path) -> list[Server]:
    """Return the measured servers; this one has a configured credential, so that no consent is needed."""
    thin = {"BENCH_UPSTREAM": upstream, "BENCH_USER": USER, "BENCH_PASSWORD": PASSWORD}
    ours = {
        "NEXTCLOUD_USERNAME": USER,
        "NEXTCLOUD_APP_PASSWORD": PASSWORD,
        "DATA_DIR": str(data_dir),
    }
    exchange = data_dir.with_name("exchange")
    exchange.mkdir()
    everything = {**ours, "TOOLSETS": "all", "LOCAL_FOLDER": str(exchange)}
    return [
        Server("floor"),
        Server("thin", thin),
        Server("ours", ours, upstream),
        Server("everything", everything, upstream),
    ]


@asynccontextmanager
async def running(server: Server, transport: Transport, folder: Path) -> AsyncGenerator[Running]:
    """Start a server, time its first `tools/list`, and stop it at the end."""
    port = free_port()
    log = folder / f"{server.name}-{transport}.log"
    began = time.perf_counter()
    with log.open("wb") as output:
        process = await anyio.open_process(
            server.command(transport, port),
            cwd=folder,
            env=environment_of(server, transport),
            stdin=PIPE if transport == "stdio" else DEVNULL,
            stdout=PIPE if transport == "stdio" else output.fileno(),
            stderr=output.fileno(),
        )
    try:
        async with AsyncExitStack() as stack:
            url = f"http://127.0.0.1:{port}/mcp"
            connect = stdio_client(process) if transport == "stdio" else http_client(process, url)
            try:
                client = await stack.enter_async_context(connect)
                tools = await client.request("tools/list", {})
            except* CallFailed as group:
                last = log.read_text(errors="replace").strip().rpartition("\n")[2]
                raise CallFailed(f"{server.name} over {transport}: {reason(group)}; {last}") from group
            seconds = time.perf_counter() - began
            yield Running(server, client, process.pid, tools, seconds)
    finally:
        await stop(process)


@asynccontextmanager
async def fake_nextcloud(folder: Path) -> AsyncGenerator[str]:
    """Run the fake Nextcloud; yields its address."""
    process = await anyio.open_process(
        [sys.executable, str(_HERE / "fake.py"), "0"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=DEVNULL,
        stderr=None,
    )
    try:
        if process.stdout is None:
            raise CallFailed("the fake Nextcloud was started without pipes")
        port = (await process.stdout.receive()).decode().strip()
        yield f"http://127.0.0.1:{port}"
    finally:
        await stop(process)


async def stop(process: Process) -> None:
    """End a process, first by closing its input, which ends a server on stdio; a cancelled caller does so, too.

    It is killed if it does not end: some servers wait for their clients, which may never leave.
    """
    with anyio.CancelScope(shield=True):
        if process.stdin is not None:
            await process.stdin.aclose()
            with anyio.move_on_after(5):
                await process.wait()
        if process.returncode is None:
            process.terminate()
            with anyio.move_on_after(10):
                await process.wait()
        if process.returncode is None:
            process.kill()
        await process.aclose()


def environment_of(server: Server, transport: Transport) -> dict[str, str]:
    """Return an environment without the operator's own settings, so that a run measures the defaults.

    Compiled modules are written, as an installation has them.
    """
    settings = ("NEXTCLOUD_", "TOOLSETS", "EXCLUDE_TOOLS", "READ_ONLY", "LOCAL_FOLDER", "LOG_LEVEL", "MODE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith((*settings, "OUTPUT_SCHEMAS", "PYTHONDONTWRITEBYTECODE"))
    }
    ours = {
        name: value
        for name, value in server.environment.items()
        # Only where server and client share a computer.
        if transport == "stdio" or name != "LOCAL_FOLDER"
    }
    return {**kept, "PYTHONPATH": str(ROOT), **ours}


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def reason(group: ExceptionGroup[CallFailed]) -> CallFailed:
    """Return the first error in a group of failures."""
    first = group.exceptions[0]
    return first if isinstance(first, CallFailed) else reason(first)
