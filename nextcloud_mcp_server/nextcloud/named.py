"""Finds items by words of their names; long names are read in a thread, as in `aside`."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.spelling import has_words

Item = TypeVar("Item")


async def having_words(
    query: str, items: Iterable[Item], names: Callable[[Item], tuple[str, ...]], *, uid: str
) -> list[Item]:
    """Return the items whose names contain every word of a query; all without one.

    Raises:
      InvalidInput: The query has too many words.
    """
    listed = list(items)
    if not query.strip():
        return listed
    named = [(item, names(item)) for item in listed]
    size = sum(len(name) for _, texts in named for name in texts)
    return await aside(partial(_chosen, query, named), uid=uid, size=size)


def _chosen(query: str, named: list[tuple[Item, tuple[str, ...]]]) -> list[Item]:
    return [item for item, texts in named if has_words(query, *texts)]
