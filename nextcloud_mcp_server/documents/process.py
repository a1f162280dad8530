"""Runs the worker that reads one document, and treats its output as untrusted."""

import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast, get_args

import anyio
from anyio.abc import ByteReceiveStream, Process

from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.output import MAX_TEXT_BYTES, End
from nextcloud_mcp_server.documents.worker import SMALL_BYTES

#: Seconds from the last byte of the document on: for a large document, and for one of at most `SMALL_BYTES`.
DEADLINE_SECONDS: Final = 45.0
SMALL_DEADLINE_SECONDS: Final = 10.0
#: Seconds in which the whole document must have come: meanwhile it has a worker, of which there are few.
FEED_SECONDS: Final = 60.0
#: Bytes of messages of a correct worker: one for each of 90,000 pages. A document may make it write without end.
MAX_MESSAGE_BYTES: Final = 1_048_576
#: A correct worker stops at `MAX_TEXT_BYTES`.
_MOST_WRITTEN: Final = 2 * MAX_TEXT_BYTES

_ROOT: Final = str(Path(__file__).parents[2])
#: The root folder, on any system.
TOP: Final = Path(_ROOT).anchor
#: Isolated (`-I`): nothing is imported from the working directory or from paths in environment variables.
COMMAND: Final = (
    sys.executable,
    "-I",
    "-c",
    (
        f"import sys; sys.path.insert(0, {_ROOT!r}); "
        "from nextcloud_mcp_server.documents.worker import main; main(sys.argv[1])"
    ),
)

_PROGRESS: Final = re.compile(r"(\d{1,9}) (\d{1,9})")
_LONGEST_LINE: Final = 200
#: So many messages that arrive at once are read, the last ones.
_MOST_LINES: Final = 100
#: The minimum interval between progress reports.
_REPORT_SECONDS: Final = 0.5
_ENDS: Final = frozenset(cast("tuple[End, ...]", get_args(End)))

Report = Callable[[int, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Extract:
    """The text of a document as UTF-8, how reading ended, and after how many parts."""

    text: bytes
    end: End
    parts: tuple[int, int] | None = None


async def extract(
    kind: Kind,
    pieces: AsyncIterable[bytes],
    *,
    report: Report,
    seconds: float | None = None,
    feed_seconds: float = FEED_SECONDS,
    command: Sequence[str] = COMMAND,
) -> Extract:
    """Read one document in a separate process, which has ended when this returns or is cancelled."""
    process = await anyio.open_process(
        [*command, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # The server's own environment contains its keys and passwords.
        env={},
        cwd=TOP,
        start_new_session=True,
    )
    taken = _Taken(report, process.kill)
    late = True
    try:
        size = None
        with anyio.move_on_after(feed_seconds):
            size = await _feed(process, pieces)
        if size is not None:
            if seconds is None:
                seconds = SMALL_DEADLINE_SECONDS if size <= SMALL_BYTES else DEADLINE_SECONDS
            with anyio.move_on_after(seconds):
                await taken.all(process)
                late = False
    finally:
        # Whatever the caller and the document do, the process must end.
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()
    # A NUL would make it look like a binary file.
    text = taken.bytes_.decode("utf-8", "ignore").replace("\0", "").encode()
    return Extract(text, taken.end or _why(process, late=late), taken.parts)


async def _feed(process: Process, pieces: AsyncIterable[bytes]) -> int:
    """Send the document and return its size; the worker reads all of it before it writes."""
    stdin = cast("anyio.abc.ByteSendStream", process.stdin)
    size = 0
    # A worker that ends early gives the reason in its last message, or by its signal.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for piece in pieces:
            size += len(piece)
            await stdin.send(piece)
        await stdin.aclose()
    return size


@dataclass(slots=True)
class _Taken:
    """The output so far, from a process that a document may control."""

    report: Report
    kill: Callable[[], None]
    bytes_: bytearray = field(default_factory=bytearray)
    end: End | None = None
    parts: tuple[int, int] | None = None
    _reported_at: float = 0.0

    async def all(self, process: Process) -> None:
        """Read all output of the worker until it has ended; one that writes without end is killed."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._words, cast("ByteReceiveStream", process.stderr))
            await self._text(cast("ByteReceiveStream", process.stdout))
        await process.wait()

    async def _text(self, stream: ByteReceiveStream) -> None:
        """Read text until it ends, or exceeds the limit of a correct worker by far."""
        written = 0
        async for piece in stream:
            self.bytes_ += piece[: MAX_TEXT_BYTES - len(self.bytes_)]
            written += len(piece)
            if written > _MOST_WRITTEN:
                return self._stop()
        return None

    async def _words(self, stream: ByteReceiveStream) -> None:
        """Read the worker's messages; unknown ones are ignored."""
        begun, written = "", 0
        async for piece in stream:
            *lines, begun = (begun + piece.decode("ascii", "replace")).split("\n")
            begun = begun[-_LONGEST_LINE:]
            for line in lines[-_MOST_LINES:]:
                await self._word(line)
            written += len(piece)
            if written > MAX_MESSAGE_BYTES:
                return self._stop()
        return None

    def _stop(self) -> None:
        """Kill a worker that does not do what it should; the text so far counts."""
        self.end = "failed"
        with suppress(ProcessLookupError):
            self.kill()

    async def _word(self, line: str) -> None:
        if found := _PROGRESS.fullmatch(line):
            self.parts = int(found[1]), int(found[2])
            now = anyio.current_time()
            if now - self._reported_at >= _REPORT_SECONDS:
                self._reported_at = now
                await self.report(*self.parts)
        elif (end := line.removeprefix("end ")) in _ENDS:
            self.end = end


def _why(process: Process, *, late: bool) -> End:
    """Return why a worker ended without a last message."""
    if late or process.returncode == -getattr(signal, "SIGXCPU", 0):
        return "slow"
    # The system ends a process with this signal when memory is short.
    return "memory" if process.returncode == -getattr(signal, "SIGKILL", 0) else "failed"
