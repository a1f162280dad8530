"""The sort orders of a folder listing."""

from typing import Final, Literal

from nextcloud_mcp_server.nextcloud.entries import Entry
from nextcloud_mcp_server.nextcloud.top_k import Place, Position

Order = Literal["name", "modified", "size"]


def _by_name(entry: Entry) -> Place:
    name = entry.name
    return 0 if entry.is_folder else 1, name.casefold(), name


def _newest_first(entry: Entry) -> Place:
    return Position.of(-(entry.version.seconds or 0), entry.name)


def _largest_first(entry: Entry) -> Place:
    return Position.of(-(entry.size or 0), entry.name)


#: The sort key of an entry, by order.
PLACES: Final = {"name": _by_name, "modified": _newest_first, "size": _largest_first}


def position(entry: Entry, order: Order) -> Position:
    """Return the sort key of an entry, at which a later page continues."""
    return Position(*PLACES[order](entry))
