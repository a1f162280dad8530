"""The process that reads one document: it comes by stdin, its text goes to stdout, how it went to stderr.

It is started with an empty environment for each document and ends with it, so that a document which
gets the better of a reader finds no secret, no other person's text and no way to write a file.
"""

import io
import logging
import sys
from importlib import import_module
from typing import BinaryIO, Final, Protocol, TextIO, cast

from nextcloud_mcp_server.documents.kinds import Kind
from nextcloud_mcp_server.documents.output import End, Output, Refused

#: All that the process may take; a text of two thousand pages needs a fifth of it.
MEMORY_BYTES: Final = 536_870_912
CPU_SECONDS: Final = 30
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
    work(kind, sys.stdin.buffer, sys.stdout.buffer, sys.stderr)


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
    """Give up what a reader does not need."""
    if resource is None:
        return
    limits = {
        "RLIMIT_AS": (MEMORY_BYTES, MEMORY_BYTES),
        # The first ends the process by a signal of its own, which tells it from a lack of memory.
        "RLIMIT_CPU": (CPU_SECONDS, CPU_SECONDS + 1),
        "RLIMIT_FSIZE": (0, 0),
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NPROC": (0, 0),
        "RLIMIT_NOFILE": (OPEN_FILES, OPEN_FILES),
    }
    for name, most in limits.items():
        try:
            resource.setrlimit(getattr(resource, name), most)
        except (AttributeError, ValueError, OSError):
            # macOS has no limit of memory; the deadline and the other limits hold there too.
            continue


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
