"""The process that reads one document: it comes by stdin, its text goes to stdout, how it went to stderr.

It is started with an empty environment for each document and ends with it. Before it reads, it gives up
memory, time, files, network and other processes, so a document that takes over a reader finds no secret, no other
user's text and no way out.
"""

import io
import logging
import sys
from contextlib import suppress
from importlib import import_module
from typing import BinaryIO, Final, Protocol, TextIO, cast

from nextcloud_mcp_server.documents.isolation import isolate
from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.output import End, Output, Refused

#: All that the process may take; a text of two thousand pages needs a fifth of it.
MEMORY_BYTES: Final = 536_870_912
CPU_SECONDS: Final = 30
#: For a document of up to so many bytes: its reader has nothing to do that takes longer.
SMALL_BYTES: Final = 1_048_576
SMALL_CPU_SECONDS: Final = 8
#: A file that has to be opened after the start is a module of Python's.
OPEN_FILES: Final = 32

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
    # What a library logs about a document would stand between our own words.
    logging.disable()
    document = sys.stdin.buffer.read()
    limit_time(limits_of_system(), len(document))
    # Last, since nothing can be limited after it, and before anything looks into the document.
    isolate()
    work(kind, io.BytesIO(document), sys.stdout.buffer, sys.stderr)


class Limits(Protocol):
    """Python's module `resource`, which Windows does not have."""

    def setrlimit(self, resource: int, limits: tuple[int, int], /) -> None:
        """Set a soft and a hard limit."""
        ...


def limits_of_system() -> Limits | None:
    """Find what limits a process here; None on Windows, where the deadline alone holds."""
    try:
        return cast("Limits", import_module("resource"))
    except ImportError:
        return None


def limit(resource: Limits | None) -> None:
    """Bound the memory, the processor time and the files of this process."""
    limits = {
        "RLIMIT_AS": (MEMORY_BYTES, MEMORY_BYTES),
        # The first ends the process by a signal of its own, which tells it from a lack of memory.
        "RLIMIT_CPU": (CPU_SECONDS, CPU_SECONDS + 1),
        "RLIMIT_FSIZE": (0, 0),
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NPROC": (0, 0),
        "RLIMIT_NOFILE": (OPEN_FILES, OPEN_FILES),
    }
    _set(resource, limits)


def _set(resource: Limits | None, limits: dict[str, tuple[int, int]]) -> None:
    for name, most in limits.items():
        # macOS has no limit of memory; the deadline and the other limits hold there too. Windows has none at all.
        with suppress(AttributeError, ValueError, OSError):
            cast("Limits", resource).setrlimit(getattr(resource, name), most)


def limit_time(resource: Limits | None, size: int) -> None:
    """Give a small document less processor time: a file of 60 kB that takes longer was made to."""
    if size <= SMALL_BYTES:
        _set(resource, {"RLIMIT_CPU": (SMALL_CPU_SECONDS, SMALL_CPU_SECONDS + 1)})


def work(kind: Kind, source: BinaryIO, target: BinaryIO, told: TextIO) -> None:
    """Read a document, and say at the end how it went."""

    def tell(line: str) -> None:
        # What was read so far counts even when the process is ended at its deadline.
        target.flush()
        told.write(f"{line}\n")
        told.flush()

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
