"""Common parts of calendars and address books: named collections with members, and a state of each."""

from collections.abc import Collection, Mapping, Sequence

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.watch import Place
from nextcloud_mcp_server.resources.kind import Marks, fingerprint


async def look(
    nc: Account, place: Place, values: Collection[str], before: Marks | None, *, listing: bool
) -> Marks:
    """Fetch the states of all collections, and the etags of members only where the state has changed."""
    states = await nc.watch.states(place)
    old: Mapping[str, str] = before.state if before else {}
    known: Mapping[str, str] = before.each if before else {}
    each: dict[str, str] = {}
    for value in values:
        state = states.get(value.partition("/")[0])
        if value in known and state is not None and state == old.get(value.partition("/")[0]):
            each[value] = known[value]
    each |= await nc.watch.etags(place, [value for value in values if value not in each])
    return Marks(each, fingerprint(states.items()) if listing else None, states)


def at(names: Sequence[str], wanted: str | None) -> int:
    """Return the index at which a list continues: the collection named by the cursor, or the first.

    Raises:
      InvalidInput: There is no collection of that name.
    """
    if wanted is not None and wanted not in names:
        raise InvalidInput("That cursor does not belong to this list; list again without one.")
    return 0 if wanted is None else names.index(wanted)


def begins(value: str, *texts: str) -> bool:
    """Tell whether typed text matches: the beginning of a name, or words of a title."""
    first, *titles = texts
    words = value.casefold().split()
    return first.casefold().startswith(value.casefold()) or any(
        all(word in title.casefold() for word in words) for title in titles
    )
