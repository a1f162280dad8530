"""The tool for Nextcloud's unified search; it has rows of its own, because `nextcloud` does not import `tools`."""

import json
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.search import Cursor, Hit, Hits, Place
from nextcloud_mcp_server.nextcloud.top_k import Position
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.file_results import shown_as
from nextcloud_mcp_server.tools.result import Result
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

search = Toolset("search")

#: Longer titles and details, such as whole comments, are cut.
_MAX_TEXT = 300
#: A longer link is left out.
_MAX_LINK = 2000
#: Each group adds its names and its cursor to the rows.
_MOST_BYTES: Final = pagination.MAX_ROWS_BYTES + 2000

_PLACE: Final = TypeAdapter(tuple[Cursor | None, str])


class HitRow(Result):
    """Something found; `path` is that of a file."""

    title: str
    detail: str | None = None
    path: str | None = None
    link: str | None = None
    shown_as: str | None = None

    @classmethod
    def of(cls, hit: Hit) -> "HitRow":
        """Build from a hit."""
        title = _short(hit.title)
        return cls(
            title=title,
            detail=_short(hit.detail) or None,
            path=hit.path.strip("/") if hit.path else None,
            link=hit.url if 0 < len(hit.url) <= _MAX_LINK else None,
            shown_as=shown_as(title),
        )


class Group(Result):
    """What one provider found; `cursor` gets more of it, `note` says what is missing and why."""

    provider: str
    name: str
    items: list[HitRow]
    cursor: str | None = None
    note: str | None = None


class Groups(Result):
    """What was found, by provider; `nothing_in` and, for want of room, `not_shown` only name some."""

    groups: list[Group]
    nothing_in: list[str] | None = None
    not_shown: list[str] | None = None


def _short(text: str) -> str:
    return f"{text[:_MAX_TEXT]}…" if len(text) > _MAX_TEXT else text


@search.tool("Search everywhere", read_only=True, long=True)
@require_provisioning("search:read")
async def nc_search_find_items(
    nc: Account,
    query: Annotated[str, Field(min_length=1, max_length=200)],
    *,
    providers: Annotated[
        list[str] | None, Field(max_length=20, description='Such as "files", "calendar"; else all.')
    ] = None,
    limit: Annotated[int, Field(ge=1, le=25, description="For each provider.")] = 5,
    cursor: str | None = None,
) -> Groups:
    """Search in all of Nextcloud at once: files, notes, events, contacts, cards and whatever else is installed.

    For more of one provider pass it alone with its cursor.
    """
    if not query.strip():
        raise InvalidInput("Say what to search for: 'query' holds nothing but spaces.")
    chosen = await nc.search.choose(providers or [])
    filters = ("unified", query, limit)
    if cursor is None:
        found = await nc.search.search_all(chosen, query, limit=limit)
    elif len(chosen) == 1:
        after = pagination.unseal(cursor, *filters, chosen[0].id, least=0)
        found = [await nc.search.search(chosen[0], query, limit=limit, at=_opened(after))]
    else:
        raise InvalidInput("A cursor belongs to one provider: pass that one alone in 'providers'.")
    telling = [hits for hits in found if hits.hits or hits.failed]
    rows = [[HitRow.of(hit) for hit in hits.hits] for hits in telling]
    shares = pagination.fair(rows)
    # Cut from the end, where Nextcloud has the results it ranks lowest.
    groups = pagination.fit(
        [_group(hits, row[:share], filters) for hits, row, share in zip(telling, rows, shares, strict=True)],
        _MOST_BYTES,
    )
    left_out = [hits.provider.id for hits in telling[len(groups) :]]
    nothing = [hits.provider.id for hits in found if not hits.hits and not hits.failed]
    return Groups(
        groups=groups,
        nothing_in=nothing or None,
        not_shown=left_out or None,
    )


def _group(hits: Hits, rows: list[HitRow], filters: tuple[object, ...]) -> Group:
    rest = hits.after(len(rows))
    return Group(
        provider=hits.provider.id,
        name=hits.provider.name,
        items=rows,
        cursor=None if rest is None else pagination.seal(_closed(rest), *filters, hits.provider.id),
        note=hits.failed,
    )


def _closed(place: Place) -> Position:
    """Convert a place to a position for a cursor; a provider's own cursor is a number or a string."""
    return Position.of(place.skip, json.dumps([place.cursor, place.last]))


def _opened(after: Position | None) -> Place | None:
    if after is None:
        return None
    try:
        cursor, last = _PLACE.validate_json(after.name)
    except ValidationError:
        raise pagination.of_another_list() from None
    return Place(cursor, after.number, last)
