"""Changes a file of the user's: as a whole or not at all, with a copy of what was there, and the same permissions."""

import os
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nextcloud_mcp_server.errors import ConfigurationError

_LARGEST = 4_194_304


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file as it was read; `path` is where a link leads, `text` is empty where there is none yet."""

    path: Path
    text: str
    exists: bool

    @classmethod
    def read(cls, named: Path) -> "UserFile":
        """Read a file, or find that there is none.

        Raises:
            ConfigurationError: It cannot be read, or is no text.
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
        """Whether other users of the computer can read it."""
        return self.exists and os.name == "posix" and bool(self.path.stat().st_mode & 0o077)

    def replace(self, text: str, *, now: datetime) -> Path | None:
        """Write another text, and return the path of the copy of what was there; None where there was nothing.

        Raises:
            ConfigurationError: It cannot be written, or was changed meanwhile; it is as it was then.
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
        """Put a file in its place in one step, with the owner and the permissions of the one that was read.

        A new one is for the user alone, as it is made: an entry may hold a secret.
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
        except BaseException:  # raised again: no half-written file stays, also after Ctrl+C
            Path(name).unlink(missing_ok=True)
            raise


def _keep_access(descriptor: int, known: os.stat_result) -> None:
    """Give an open file the owner and the permissions of another; the name may lead to another file by now."""
    mode = known.st_mode & 0o7777
    try:
        os.fchown(descriptor, known.st_uid, known.st_gid)
    except PermissionError:
        # The group is another one then, which was not let in before.
        mode &= ~0o070
    os.fchmod(descriptor, mode)
