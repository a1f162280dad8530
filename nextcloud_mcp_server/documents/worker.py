"""The process that reads one document: from stdin, its text to stdout, its messages to stderr.

It is started with an empty environment for each document and ends with it. Before it reads, it gives up memory, time,
files, network and other processes. So a document that takes control of the reader finds no secret, no text of another
user and no way out.
"""

import io
import logging
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import BinaryIO, Final, Protocol, TextIO, cast

from nextcloud_mcp_server.documents.isolation import isolate
from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.output import End, Output, Refused

#: The memory limit of the process; a text of two thousand pages needs a fifth of it.
MEMORY_BYTES: Final = 536_870_912
CPU_SECONDS: Final = 30
#: Documents up to this size get less processor time: reading them takes little.
SMALL_BYTES: Final = 1_048_576
SMALL_CPU_SECONDS: Final = 8
#: After the start only Python's modules have to be opened.
OPEN_FILES: Final = 32
#: Added to the server's own: its other calls take milliseconds and come first.
NICENESS: Final = 10

_READERS: Final[dict[Kind, str]] = {
    "pdf": "pdf",
    "word": "word",
    "sheet": "sheet",
    "slides": "slides",
    "opendocument": "opendocument",
    "epub": "epub",
    "html": "html_text",
    "rtf": "rtf",
    "mail": "mail",
}


def main(kind: Kind) -> None:
    """Read the document on stdin."""
    limit(limits_of_system())
    # Windows has no such function.
    with suppress(AttributeError):
        os.nice(NICENESS)
    # Log messages of a library would mix with the worker's own messages.
    logging.disable()
    document = sys.stdin.buffer.read()
    limit_time(limits_of_system(), len(document))
    # Last, since no limit can be set after it, but before any byte of the document is parsed.
    isolate()
    work(kind, io.BytesIO(document), sys.stdout.buffer, sys.stderr)


class Limits(Protocol):
    """Python's module `resource`, which Windows does not have."""

    def setrlimit(self, resource: int, limits: tuple[int, int], /) -> None:
        """Set a soft and a hard limit."""
        ...


def limits_of_system() -> Limits | None:
    """Return the module that limits a process; None on Windows, where only the deadline applies."""
    try:
        return cast("Limits", import_module("resource"))
    except ImportError:
        return None


def limit(resource: Limits | None) -> None:
    """Limit the memory, the processor time and the files of this process."""
    limits = {
        "RLIMIT_AS": (MEMORY_BYTES, MEMORY_BYTES),
        # The soft limit ends the process with its own signal, which distinguishes it from a lack of memory.
        "RLIMIT_CPU": (CPU_SECONDS, CPU_SECONDS + 1),
        "RLIMIT_FSIZE": (0, 0),
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NPROC": (0, 0),
        "RLIMIT_NOFILE": (OPEN_FILES, OPEN_FILES),
    }
    _set(resource, limits)


def _set(resource: Limits | None, limits: dict[str, tuple[int, int]]) -> None:
    for name, most in limits.items():
        # macOS has no memory limit; the deadline and the other limits apply there too. Windows has no limits.
        with suppress(AttributeError, ValueError, OSError):
            cast("Limits", resource).setrlimit(getattr(resource, name), most)


def limit_time(resource: Limits | None, size: int) -> None:
    """Give a small document less processor time: a file of 60 kB that takes longer is an attack."""
    if size <= SMALL_BYTES:
        _set(resource, {"RLIMIT_CPU": (SMALL_CPU_SECONDS, SMALL_CPU_SECONDS + 1)})


def work(kind: Kind, source: BinaryIO, target: BinaryIO, status: TextIO) -> None:
    """Read a document, and write at the end how it went."""

    def tell(line: str) -> None:
        # Text read so far counts even when the process is ended at its deadline.
        target.flush()
        status.write(f"{line}\n")
        status.flush()

    out = Output(target.write, tell)
    end: End = "ok"
    try:
        reader = import_module(f"nextcloud_mcp_server.documents.{_READERS[kind]}")
        reader.read(io.BytesIO(source.read()), out)
        end = "ok" if out.anything else "empty"
    except Refused as refused:
        end = refused.end
    except (MemoryError, RecursionError):
        end = "memory"
    except Exception:  # noqa: BLE001 - the reader's supervisor: whatever it was, it ends with this process
        end = "failed"
    tell(f"end {end}")
