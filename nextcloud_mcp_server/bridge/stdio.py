"""Starts a server as a process, and exchanges a line of JSON for each message.

The SDK's `stdio_client` neither limits a line nor hands out the lines of stderr, and a server that ends leaves no
reason. Ending follows the specification: stdin is closed, then SIGTERM, then SIGKILL, to the whole process group.
"""

import json
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, cast

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from nextcloud_mcp_server.bridge.configuration import Server
from nextcloud_mcp_server.errors import AnswerUnreadable, BridgeError, TransportFailed
from nextcloud_mcp_server.logs import one_line, redact

_EXIT_SECONDS: Final = 2.0
_FLUSH_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.01
#: A line of diagnostics is cut there.
_LONGEST_DIAGNOSTIC: Final = 10_000
_LONGEST_REASON: Final = 300
#: A server that has printed so many lines that are no messages, and not one that is, speaks no MCP.
_MOST_OTHER_LINES: Final = 100
_CHUNK: Final = 65_536

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class StdioTransport:
    """One process of a server. `fault` says why it ended, once it did."""

    def __init__(self, server: Server, *, diagnostic: Callable[[str], None], max_bytes: int) -> None:
        self.fault: BridgeError | None = None
        self.over = False
        self._server = server
        self._diagnostic = diagnostic
        self._max_bytes = max_bytes
        self._last_lines: deque[str] = deque(maxlen=1)
        self._other_lines = 0
        self._spoke = False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Streams]:
        """Start the process and yield the streams of its messages; it has ended when the block is left.

        Raises:
            TransportFailed: It cannot be started.
        """
        process = await self._start()
        # From here to the task group nothing is awaited: a cancellation between them would leave the process.
        incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        flushed = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read_messages, process, incoming)
            tasks.start_soon(self._read_diagnostics, process)
            tasks.start_soon(self._write_messages, process, outgoing, flushed)
            try:
                yield read_stream, write_stream
            finally:
                with anyio.CancelScope(shield=True):
                    read_stream.close()
                    write_stream.close()
                    with anyio.move_on_after(_FLUSH_SECONDS):
                        await flushed.wait()
                    await _end(process)
                tasks.cancel_scope.cancel()

    async def _start(self) -> Process:
        server = self._server
        environment = get_default_environment() | server.env
        cwd = _folder(server)
        # Windows finds `npx.cmd` for `npx` only here.
        found = (
            shutil.which(server.command, path=environment.get("PATH")) if sys.platform == "win32" else None
        )
        try:
            return await anyio.open_process(
                [found or server.command, *server.args],
                env=environment,
                cwd=cwd,
                start_new_session=sys.platform != "win32",
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            what = server.command if cwd is None or cwd.is_dir() else str(cwd)
            raise TransportFailed(
                f'MCP transport error: the server "{server.id}" cannot be started: {one_line(what)}: {reason}.'
            ) from error

    async def _read_messages(
        self, process: Process, incoming: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdout is not None  # noqa: S101 - it was opened with pipes
        async with incoming:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for line in _lines(process.stdout, self._max_bytes):
                    if line is None:
                        self.fault = AnswerUnreadable(
                            f'MCP transport error: the server "{self._server.id}" sent a line of more than '
                            f"{self._max_bytes} bytes."
                        )
                        self.over = True
                        return
                    message = self._parsed(line)
                    if message is not None:
                        await incoming.send(message)
                    elif self.fault is not None:
                        self.over = True
                        return
                await self._explain_end(process)
            self.over = True
        # A server that is blocked by a full pipe would not end when it is told to.
        await _drain(process.stdout)

    def _parsed(self, line: bytes) -> SessionMessage | None:
        """Return the message of a line; None for a line that is none, which many programs print at their start."""
        message = parsed_line(line)
        if message is None:
            text = line.decode("utf-8", "replace").strip()
            if text:
                self._say(text)
                self._other_lines += 1
            if self._other_lines > _MOST_OTHER_LINES and not self._spoke:
                self.fault = AnswerUnreadable(
                    f'MCP transport error: what the server "{self._server.id}" prints is not MCP: its first '
                    f"{_MOST_OTHER_LINES} lines are no messages."
                )
            return None
        self._spoke = True
        return SessionMessage(message)

    async def _read_diagnostics(self, process: Process) -> None:
        assert process.stderr is not None  # noqa: S101 - it was opened with pipes
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for line in _lines(process.stderr, _LONGEST_DIAGNOSTIC, cut=True):
                if line is not None and (text := line.decode("utf-8", "replace").strip()):
                    self._say(text)

    def _say(self, text: str) -> None:
        # A server may print what it was given, such as its own secrets.
        line = one_line(redact(text[:_LONGEST_DIAGNOSTIC]))
        self._last_lines.append(line)
        self._diagnostic(line)

    async def _explain_end(self, process: Process) -> None:
        with anyio.move_on_after(_EXIT_SECONDS):
            await _exited(process)
            # The last line of stderr may still be on its way.
            await anyio.sleep(_POLL_SECONDS)
        code = process.returncode
        how = "closed its output" if code is None else f"ended with exit code {code}"
        last = f": {self._last_lines[-1][:_LONGEST_REASON].rstrip('.')}" if self._last_lines else ""
        self.fault = TransportFailed(f'MCP transport error: the server "{self._server.id}" {how}{last}.')

    async def _write_messages(
        self, process: Process, outgoing: MemoryObjectReceiveStream[SessionMessage], flushed: anyio.Event
    ) -> None:
        assert process.stdin is not None  # noqa: S101 - it was opened with pipes
        try:
            async with outgoing:
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
                    async for message in outgoing:
                        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                        await process.stdin.send(text.encode() + b"\n")
        finally:
            flushed.set()


def parsed_line(line: bytes) -> JSONRPCMessage | None:
    """Return the message of a line; None for a line that is none.

    JavaScript writes half of a character as it is when a text was cut there; it becomes U+FFFD. An answer that is no
    JSON-RPC becomes an error: the call that waits for it would wait for ever.
    """
    with suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        value = cast("dict[str, object]", json.loads(line.decode("utf-8", "replace")))
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    with suppress(ValueError):
        mended = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return jsonrpc_message_adapter.validate_json(mended, by_name=False)
    number = value.get("id")
    if "method" in value or isinstance(number, bool) or not isinstance(number, int | str):
        return None
    fault = ErrorData(code=PARSE_ERROR, message="Failed to parse an answer of the server")
    return JSONRPCError(jsonrpc="2.0", id=number, error=fault)


async def _lines(stream: ByteReceiveStream, limit: int, *, cut: bool = False) -> AsyncIterator[bytes | None]:
    """Yield each line without its end; None for one that is too long, where reading ends unless lines are `cut`."""
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            chunk = await stream.receive(_CHUNK)
        except anyio.EndOfStream:
            break
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            yield b"".join([*parts, line]) if cut or size + len(line) <= limit else None
            parts, size = [], 0
        size += len(rest)
        if size <= limit:
            parts.append(rest)
        elif not cut:
            yield None
            return
    if parts and any(parts):
        yield b"".join(parts)


async def _drain(stream: ByteReceiveStream) -> None:
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        while True:
            await stream.receive(_CHUNK)


async def _end(process: Process) -> None:
    """End a process that may be stuck, and everything that it started; each wait is bounded."""
    for step in (None, signal.SIGTERM, "kill"):
        if step is None:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                assert process.stdin is not None  # noqa: S101 - it was opened with pipes
                await process.stdin.aclose()
        else:
            _signal(process, force=step == "kill")
        with anyio.move_on_after(_EXIT_SECONDS):
            await _exited(process)
            break
    for stream in (process.stdout, process.stderr):
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            assert stream is not None  # noqa: S101 - it was opened with pipes
            await stream.aclose()
    # While a child of the process holds a pipe, asyncio's transport stays open, and nothing public closes it.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
    with anyio.move_on_after(_EXIT_SECONDS):
        await process.wait()


async def _exited(process: Process) -> None:
    # `Process.wait` also waits for pipes that a child of the process may hold.
    while process.returncode is None:  # noqa: ASYNC110 - nothing else tells it
        await anyio.sleep(_POLL_SECONDS)


def _folder(server: Server) -> Path | None:
    return None if server.cwd is None else Path(server.cwd).expanduser()


def _signal(process: Process, *, force: bool) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL if force else signal.SIGTERM)
