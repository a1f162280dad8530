"""The local folder that the operator configured: nothing outside it is accessed.

A model may have been manipulated by text it has read. So names are refused that contain `..`, pass a symbolic link,
or name anything but a regular file, and no local file is ever overwritten.
"""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO, Final

import anyio

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.sanitize import quoted

_OPEN: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """An open local file, read in a worker thread."""

    name: str
    size: int
    file: BinaryIO
    _changed_ns: int

    async def read(self, size: int) -> bytes:
        """Read exactly `size` bytes.

        Raises:
          InvalidInput: The file was changed meanwhile.
        """
        data = await anyio.to_thread.run_sync(self.file.read, size)
        now = os.fstat(self.file.fileno())
        if len(data) != size or now.st_size != self.size or now.st_mtime_ns != self._changed_ns:
            raise InvalidInput(f"{quoted(self.name)} was changed while it was read, so it was not uploaded.")
        return data


class LocalFolder:
    """Opens files in the folder; None: the operator configured none."""

    def __init__(self, folder: Path | None = None) -> None:
        # Symbolic links above the folder are the operator's own.
        self._folder = folder.resolve() if folder else None

    @contextmanager
    def reading(self, name: str) -> Generator[LocalFile]:
        """Open a file for reading.

        Raises:
          InvalidInput: The folder has no such file, or it may not be used.
        """
        path = self._inside(name)
        try:
            with open(path, "rb", opener=_opened) as file:
                found = os.fstat(file.fileno())
                self._refuse_moved(path, found)
                yield LocalFile(name, found.st_size, file, found.st_mtime_ns)
        except OSError as error:
            raise InvalidInput(
                f"{quoted(name)} in the folder for exchange cannot be read ({error.strerror}): check its name."
            ) from None

    @contextmanager
    def writing(self, name: str) -> Generator[BinaryIO]:
        """Open a new file that gets this name when complete; an error or cancellation deletes it.

        A server that is killed meanwhile leaves the partial file under another name, ending in `.part`.

        Raises:
          InvalidInput: The name is taken, or may not be used.
        """
        path = self._inside(name)
        part = path.with_name(f".{secrets.token_hex(8)}.part")
        try:
            _refuse_taken(path)
            try:
                with open(part, "xb", opener=_made) as file:
                    self._refuse_moved(part, os.fstat(file.fileno()))
                    yield file
                _name_finally(part, path)
            finally:
                part.unlink(missing_ok=True)
        except FileExistsError:
            raise InvalidInput(
                f"{quoted(name)} exists already in the folder for exchange, and nothing there is overwritten: pass "
                "another name in local_file."
            ) from None
        except OSError as error:
            raise InvalidInput(
                f"{quoted(name)} in the folder for exchange cannot be written ({error.strerror})."
            ) from None

    def _inside(self, name: str) -> Path:
        if self._folder is None:
            raise InvalidInput(
                "Files of this computer are not open to assistants: send 'content' instead. The operator of a server "
                "over stdio can open a folder with LOCAL_FOLDER."
            )
        path = PurePath(name)
        if path.is_absolute():
            try:
                path = path.relative_to(self._folder)
            except ValueError:
                raise InvalidInput(
                    f"Only files in {quoted(str(self._folder))} can be used: move it there."
                ) from None
        if is_odd(path):
            raise InvalidInput(
                f"{quoted(name)} is no name of a file in the folder for exchange: pass a plain one, such as plan.pdf."
            )
        return self._followed(path)

    def _followed(self, path: PurePath) -> Path:
        """Return the path of the file, and refuse any symbolic link in it."""
        step = self._folder or Path()
        for part in path.parts:
            step /= part
            if _is_link(step):
                raise InvalidInput(f"{quoted(str(path))} leads through a link, and links are not followed.")
        return step

    def _refuse_moved(self, path: Path, opened: os.stat_result) -> None:
        """Refuse anything but a regular file, and a file replaced between check and opening."""
        now = path.resolve(strict=True)
        if not stat.S_ISREG(opened.st_mode) or now != path or not os.path.samestat(now.lstat(), opened):
            raise InvalidInput(f"{quoted(path.name)} is not a plain file.")


def is_odd(path: PurePath) -> bool:
    """Tell whether a name would leave the folder or cannot be shown.

    On Windows a name can begin at a drive, at the root of the current one, or at another computer.
    """
    return (
        not path.parts
        or bool(path.anchor)
        or ".." in path.parts
        or not all(part.isprintable() for part in path.parts)
    )


def _refuse_taken(path: Path) -> None:
    if os.path.lexists(path):
        raise FileExistsError


def _name_finally(part: Path, path: Path) -> None:
    """Give a file its final name unless that was taken meanwhile."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:
        # Not every file system supports hard links.
        _refuse_taken(path)
        part.rename(path)


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:
        # Such as a name that is too long: opening it reports the error.
        return False


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | _OPEN)


def _made(path: str, flags: int) -> int:
    return os.open(path, flags | _OPEN, mode=0o600)
