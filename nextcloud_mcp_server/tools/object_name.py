"""What people call the object of a call, for the account page: from the arguments, or from the result."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nextcloud_mcp_server.declarations.app import PATHS

#: Nextcloud's longest file name has 250 characters, and a page shows 64.
LONGEST: Final = 250


def object_name(named_by: Sequence[str], arguments: Mapping[str, Any], result: object) -> str:
    """Return the name of the object of a call; "" where nothing has one.

    `named_by` are the fields of the app's declaration. Arguments come first: a call that moves or renames an object is
    known by what was asked for. `result` is the model that the tool returned, None after a failure.
    """
    fields: list[object] = [
        *map(arguments.get, named_by),
        *(getattr(result, name, None) for name in named_by),
    ]
    for name, value in zip([*named_by, *named_by], fields, strict=True):
        if isinstance(value, str) and (found := _last_part(value) if name in PATHS else value.strip()):
            return found[:LONGEST]
    return ""


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].strip()
