"""Remembers which configuration files of projects the user has approved.

A project's file comes with a folder that others may have made, and its servers are programs that this computer would
start, or addresses that get the values of variables. So it counts only after the user has approved it, as it is:
another content is asked about anew. Files of the user's own, and those named with `--config`, need no approval.
"""

import os
import re
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from pydantic_core import from_json, to_json

from nextcloud_mcp_server.bridge.configuration_files import FileContent, Paths
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.logs import one_line

_LARGEST: Final = 1 << 20
_WRITABLE_FOR_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_LONGEST_SHOWN: Final = 1_000
_REFERENCE: Final = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)")
_PROJECT: Final = frozenset({"PROJECT_DIR", "CLAUDE_PROJECT_DIR"})

#: Returns what the user said about a file with this digest; None if it was never asked.
Answer = Callable[[Path, str], bool | None]


def never_asked(path: Path, digest: str) -> None:
    """Answer for a user who was asked about no file."""
    del path, digest


@dataclass(frozen=True, slots=True)
class Unapproved:
    """A project's file that does not count; `servers` are its names, each with what it would do."""

    path: Path
    digest: str
    servers: tuple[tuple[str, str], ...]
    project: Path
    #: Calls of any server that the file allows without a question.
    allowed: tuple[str, ...] = ()
    #: Whether the user was asked, and said no.
    is_declined: bool = False
    #: Whether the sentence was printed.
    is_told: bool = False

    @property
    def sentence(self) -> str:
        """Why the file does not count, and how it would."""
        names = ", ".join(name for name, _ in self.servers)
        state = "was declined" if self.is_declined else "is not approved yet"
        return (
            f"This project's file {state}, so nothing that it names is used{f' ({names})' if names else ''}: read it, "
            f"then run `nextcloud-mcp-server client trust` in {self.project}, or name it with --config."
        )


class Approvals:
    """The user's answers, in a file that only the user can write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def answer(self, path: Path, digest: str) -> bool | None:
        """Return what the user said about a file with this content; None if it was never asked."""
        found = self._read().get(_key(path), {})
        return found.get("approved") is True if found.get("sha256") == digest else None

    def remember(self, path: Path, digest: str, *, approved: bool) -> None:
        """Keep an answer, in place of one about another content of the same file.

        Raises:
            ConfigurationError: It cannot be kept.
        """
        self._write(self._read() | {_key(path): {"sha256": digest, "approved": approved}})

    def forget(self, path: Path) -> bool:
        """Forget the answer about a file; return whether there was one.

        Raises:
            ConfigurationError: The change cannot be kept.
        """
        answers = self._read()
        if answers.pop(_key(path), None) is None:
            return False
        self._write(answers)
        return True

    def _read(self) -> dict[str, dict[str, Any]]:
        """Return the answers; none from a file that is damaged, or that others could have written."""
        try:
            opened = os.open(self._path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except OSError:
            return {}
        with os.fdopen(opened, "rb") as file:
            found = os.fstat(file.fileno())
            if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & _WRITABLE_FOR_OTHERS):
                return {}
            try:
                content: object = from_json(file.read(_LARGEST))
            except (OSError, ValueError):
                return {}
        answers = cast("Mapping[str, Any]", content).get("files") if isinstance(content, dict) else None
        if not isinstance(answers, dict):
            return {}
        known = cast("dict[str, Any]", answers)
        return {path: cast("dict[str, Any]", one) for path, one in known.items() if isinstance(one, dict)}

    def _write(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            opened, name = tempfile.mkstemp(prefix=f".{self._path.name}-", dir=self._path.parent)
            try:
                with os.fdopen(opened, "wb") as file:
                    file.write(to_json({"version": 1, "files": answers}, indent=1))
                Path(name).replace(self._path)
            except OSError:
                with suppress(OSError):
                    Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ConfigurationError(f"{self._path} cannot be written: {reason}.") from None


def is_of_project(path: Path, paths: Paths) -> bool:
    """Tell whether a file comes with the project's folder; one that the user has named does not."""
    return not paths.files and path.is_relative_to(paths.project) and path.parent != paths.user


def can_do_something(content: FileContent) -> bool:
    """Tell whether a file names servers or allows calls; to ask and to deny needs no approval."""
    rules = content.permissions
    allows = isinstance(rules, Mapping) and "allow" in cast("Mapping[str, object]", rules)
    return bool(content.servers) or allows


def limits(content: FileContent) -> object:
    """Return what a file asks for and denies, without what it allows."""
    rules = content.permissions
    if not isinstance(rules, Mapping):
        return rules
    return {name: globs for name, globs in cast("Mapping[str, object]", rules).items() if name != "allow"}


def unapproved(content: FileContent, project: Path, *, is_declined: bool) -> Unapproved:
    """Describe a file that does not count, without a variable's value."""
    servers = tuple((one_line(name), _purpose(table)) for name, table in content.servers)
    rules = content.permissions
    allow = cast("Mapping[str, object]", rules).get("allow") if isinstance(rules, Mapping) else None
    globs = cast("list[object]", allow) if isinstance(allow, list) else []
    allowed = tuple(_shown(str(glob)) for glob in globs)
    return Unapproved(content.path, content.digest, servers, project, allowed, is_declined=is_declined)


def _purpose(table: object) -> str:
    """Return the program that an entry starts, or the address that it names, as the file has them.

    What changes the meaning of a program stands beside it: its folder, the variables that it gets (one such as
    `NODE_OPTIONS` starts another program), and those of the user's that the entry reads.
    """
    values = dict(cast("Mapping[str, object]", table)) if isinstance(table, Mapping) else {}
    for name in ("transport", "type"):
        if isinstance(nested := values.get(name), Mapping):
            values |= cast("Mapping[str, object]", nested)
    arguments = values.get("args")
    words = [values.get("command", values.get("executable", values.get("url", values.get("endpoint", "?"))))]
    words += cast("list[object]", arguments) if isinstance(arguments, list) else []
    details = [
        f"in {_shown(str(folder))}" if (folder := values.get("cwd", values.get("working_dir"))) else "",
        _with_names("sets", values.get("env")),
        _with_names("sends", values.get("headers")),
        _with_names("reads", dict.fromkeys(_variables(str(values)))),
    ]
    text = "; ".join(detail for detail in details if detail)
    return _shown(" ".join(str(word) for word in words)) + (f" ({text})" if text else "")


def _with_names(verb: str, named: object) -> str:
    names = (
        [str(name) for name in cast("Mapping[object, object]", named)] if isinstance(named, Mapping) else []
    )
    return f"{verb} {_shown(', '.join(names))}" if names else ""


def _variables(text: str) -> list[str]:
    """Return the names of the variables that the texts of an entry refer to."""
    return sorted(set(_REFERENCE.findall(text)) - _PROJECT)


def _shown(text: str) -> str:
    """Return a text as one line, without the space that could move its end out of sight."""
    line = one_line(" ".join(text.split()))
    rest = len(line) - _LONGEST_SHOWN
    return line if rest <= 0 else f"{line[:_LONGEST_SHOWN]}… ({rest} more characters)"


def _key(path: Path) -> str:
    return str(path.resolve())
