"""Replaces a user's file atomically, with a backup copy and the same permissions."""

import os
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nextcloud_mcp_server.errors import ConfigurationError

_LARGEST = 4_194_304


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file as it was read; `path` has symbolic links resolved, `text` is "" for a missing file."""

    path: Path
    text: str
    exists: bool

    @classmethod
    def read(cls, named: Path) -> "UserFile":
        """Read a file, which may be missing.

        Raises:
          ConfigurationError: It cannot be read, or is not text.
        """
        try:
            path = named.resolve()
            if not path.exists():
                return cls(path, "", exists=False)
            if not path.is_file() or path.stat().st_size > _LARGEST:
                raise ConfigurationError(f"{named} is not a settings file, and was left as it is.")
            return cls(path, path.read_bytes().decode(), exists=True)
        except UnicodeDecodeError:
            raise ConfigurationError(f"{named} is not UTF-8 text, and was left as it is.") from None
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "its links lead in a circle"
            raise ConfigurationError(f"{named} cannot be read: {reason}.") from None

    @property
    def is_shared(self) -> bool:
        """Tell whether other users of the computer can read it."""
        return self.exists and os.name == "posix" and bool(self.path.stat().st_mode & 0o077)

    def replace(self, text: str, *, now: datetime) -> Path | None:
        """Write another text; return the path of the backup copy, None where there was no file.

        Raises:
          ConfigurationError: It cannot be written, or was changed meanwhile; it is unchanged.
        """
        try:
            if UserFile.read(self.path) != self:
                raise ConfigurationError(
                    f"{self.path} was changed meanwhile, and was left as it is: run the command again."
                )
            self.path.parent.mkdir(parents=True, exist_ok=True)
            backup = self._copy(now) if self.exists else None
            self._put(self.path, text.encode())
        except OSError as error:
            raise ConfigurationError(f"{self.path} cannot be written: {error.strerror}.") from None
        return backup

    def _copy(self, now: datetime) -> Path:
        name, number = f"{self.path.name}.{now:%Y%m%d-%H%M%S}", 1
        backup = self.path.with_name(f"{name}.bak")
        while backup.exists():
            number += 1
            backup = self.path.with_name(f"{name}-{number}.bak")
        self._put(backup, self.text.encode())
        return backup

    def _put(self, path: Path, content: bytes) -> None:
        """Create or replace a file atomically, with the owner and the permissions of the one that was read.

        A new file is readable by the user alone from the start: an entry may contain a secret.
        """
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                if self.exists and os.name == "posix":
                    _keep_access(file.fileno(), self.path.stat())
            Path(name).replace(path)
        except BaseException:  # raised again: no partial file remains, also after Ctrl+C
            Path(name).unlink(missing_ok=True)
            raise


def _keep_access(descriptor: int, known: os.stat_result) -> None:
    """Set the owner and the permissions of an open file; its path may lead to another file by now."""
    mode = known.st_mode & 0o7777
    try:
        os.fchown(descriptor, known.st_uid, known.st_gid)
    except PermissionError:
        # The group is then another one, which had no access before.
        mode &= ~0o070
    os.fchmod(descriptor, mode)
