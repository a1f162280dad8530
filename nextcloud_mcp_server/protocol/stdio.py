"""stdout for messages: one thread writes and flushes each, where the SDK's own file changes threads twice.

With many concurrent long answers, each change of threads takes a twentieth of a call's processor time.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from io import TextIOWrapper

import anyio

_STDOUT = 1
_STDERR = 2


class _Lines(anyio.AsyncFile[str]):
    """A file that is flushed at the end of every line."""

    async def flush(self) -> None:
        """Do nothing: the line is flushed already."""


@contextmanager
def messages() -> Generator[anyio.AsyncFile[str]]:
    """Reserve stdout for MCP; what this server or a library prints meanwhile goes to stderr.

    The SDK does the same for a file that it opens itself.
    """
    wire = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    # Left open: a thread may still be stuck in a write to a client that does not read.
    output = os.fdopen(wire, "wb", closefd=False)
    try:
        yield _Lines(TextIOWrapper(output, encoding="utf-8", newline="\n", line_buffering=True))
    finally:
        os.dup2(wire, _STDOUT)
