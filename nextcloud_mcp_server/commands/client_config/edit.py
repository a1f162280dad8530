"""Puts this server's entry into the settings of a chat client, and leaves the rest unchanged.

Each changed text is parsed again: unless only the entry has changed, the change is refused.
"""

import json
import tomllib
from collections.abc import Mapping
from typing import Any, cast

from nextcloud_mcp_server.commands.client_config import block_toml, block_yaml, jsonc
from nextcloud_mcp_server.errors import InvalidInput

_BOM = "\ufeff"


class NotEdited(InvalidInput):
    """A file was not changed; gives the reason."""


def edited(kind: str, text: str, entry: str) -> str:
    """Set the one entry that `entry` contains, in the same format, in the text of a client's file.

    `kind` is the extension of the file.

    Raises:
      NotEdited: The text is not in the client's format, or is written in a way that cannot be changed safely.
    """
    bom, plain = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    lines = plain.replace("\r\n", "\n")
    crlf = "\r\n" in plain
    if crlf and "\n" in plain.replace("\r\n", ""):
        # One of the two kinds of line ends would be converted to the other.
        raise NotEdited("it has line ends of two kinds")
    try:
        new = _EDITORS[kind](lines, entry)
    except ValueError as error:
        raise NotEdited(str(error)) from None
    return bom + (new.replace("\n", "\r\n") if crlf else new)


def _json(text: str, entry: str) -> str:
    group, name, value = _parts(json.loads(entry))
    new = jsonc.put(text, group, name, value)
    before = cast("dict[str, Any]", jsonc.read(text).data) if text.strip() else {}
    _require(jsonc.read(new).data, before, group, name, value)
    return new


def _toml(text: str, entry: str) -> str:
    new = block_toml.put(text, entry)
    _require(tomllib.loads(new), tomllib.loads(text), *_parts(tomllib.loads(entry)))
    return new


def _parts(entry: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    ((group, inside),) = entry.items()
    ((name, value),) = inside.items()
    return group, name, value


def _require(after: object, before: Mapping[str, Any], group: str, name: str, value: object) -> None:
    entries = before.get(group, {})
    if not isinstance(entries, dict) or after != {**before, group: {**entries, name: value}}:
        raise ValueError("the change would not be the entry alone")


_EDITORS = {".json": _json, ".jsonc": _json, ".toml": _toml, ".yaml": block_yaml.put}
