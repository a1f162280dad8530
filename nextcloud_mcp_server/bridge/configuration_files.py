"""Finds the files that name servers, and reads each as plain tables.

| file | tables |
|---|---|
| `settings.toml` | `[mcp_servers.<name>]` |
| `mcp.toml`, read only where no `settings.toml` is | `[server.<name>]` or `[mcp_servers.<name>]` |
| `config.yaml` | `mcp:` with `servers:`, or `servers:` at the top; each entry has an `id` |

Each may have `permissions` and, in `mcp`, options for all servers.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from nextcloud_mcp_server.logs import one_line

#: No configuration is larger; a file that a program fills by mistake is not read to its end.
LARGEST_FILE: Final = 1_000_000
_FOLDER: Final = ".nextcloud-mcp-server"
_UNIFIED: Final = "settings.toml"
_LEGACY: Final = "mcp.toml"
_YAML: Final = ("config.yaml", "config.yml")

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Paths:
    """Where configuration is looked for: in a project, in the user's folder, or in the named files alone."""

    project: Path
    user: Path
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class FileContent:
    """What a file says, before any of it was checked."""

    path: Path
    #: Name and table of each server, as often as the file has it; a table may be anything.
    servers: Sequence[tuple[str, object]] = ()
    permissions: object = field(default_factory=dict[str, object])
    options: object = field(default_factory=dict[str, object])
    #: Keys at the top that the file has besides.
    others: Sequence[str] = ()
    #: The keys that it may have there.
    known: Sequence[str] = ()
    #: SHA-256 of the file as it was read.
    digest: str = ""


def found_files(paths: Paths) -> list[Path]:
    """Return the files that exist; a later one overrides an earlier one, and the project's come last."""
    if paths.files:
        return list(paths.files)
    folders = (paths.user, paths.project / _FOLDER)
    unified = [folder / _UNIFIED for folder in folders if (folder / _UNIFIED).is_file()]
    yaml = [folder / name for folder in folders for name in _YAML if (folder / name).is_file()]
    chosen = yaml + (unified or _legacy_files(paths))
    return sorted(chosen, key=lambda path: path.is_relative_to(paths.project) and path.parent != paths.user)


def hidden_files(paths: Paths) -> list[Path]:
    """Return the files whose servers are not read because a `settings.toml` is somewhere."""
    if paths.files:
        return []
    read_whole = found_files(paths)
    return [path for path in _legacy_files(paths) if path not in read_whole]


def _legacy_files(paths: Paths) -> list[Path]:
    folders = (paths.user, paths.project, paths.project / _FOLDER)
    return [folder / _LEGACY for folder in folders if (folder / _LEGACY).is_file()]


def read(path: Path) -> FileContent:
    """Read one file.

    Raises:
        ValueError: It cannot be read; the text is one sentence that names the file.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise ValueError(f"{path} is larger than {LARGEST_FILE} bytes, and no configuration is.")
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text.") from error
    content = _read_yaml(path, text) if path.suffix in {".yaml", ".yml"} else _read_toml(path, text)
    return replace(content, digest=sha256(raw).hexdigest())


def _read_toml(path: Path, text: str) -> FileContent:
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {one_line(str(error))}.") from error
    names = ("mcp_servers",) if path.name == _UNIFIED else ("server", "mcp_servers")
    known = (*names, "permissions", "mcp")
    return FileContent(
        path,
        [entry for name in names for entry in _tables(content.get(name, {}))],
        content.get("permissions", {}),
        content.get("mcp", {}),
        [key for key in content if key not in known],
        known,
    )


def _tables(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from cast("dict[str, object]", value).items()
    else:
        yield ("", value)


def _read_yaml(path: Path, text: str) -> FileContent:
    # Read only where a user has such a file.
    import yaml  # noqa: PLC0415 - start-up time is a feature

    try:
        loaded: object = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = re.search(r"line \d+", str(error))
        raise ValueError(f"{path} is not YAML{f': see {where.group()}' if where else ''}.") from error
    if not isinstance(loaded, Mapping):
        return FileContent(path)
    content = cast("Mapping[str, object]", loaded)
    inner = content.get("mcp")
    options: Table = dict(cast("Mapping[str, object]", inner)) if isinstance(inner, Mapping) else {}
    servers = [*_listed(options.pop("servers", None)), *_listed(content.get("servers"))]
    known = ("mcp", "servers", "permissions")
    others = [str(key) for key in content if key not in known]
    return FileContent(path, servers, content.get("permissions", {}), options, others, known)


def _listed(value: object) -> Iterator[tuple[str, object]]:
    """Yield the servers of a list of tables with an `id`, or of a table by name."""
    if isinstance(value, Mapping):
        yield from ((str(name), table) for name, table in cast("Mapping[object, object]", value).items())
    for entry in cast("list[object]", value) if isinstance(value, list) else []:
        table = dict(cast("Mapping[str, object]", entry)) if isinstance(entry, Mapping) else {}
        name = table.pop("id", "")
        yield (str(name), table if isinstance(entry, Mapping) else entry)
