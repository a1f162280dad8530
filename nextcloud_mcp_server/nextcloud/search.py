"""Nextcloud's unified search: one provider per kind of thing, each with its own pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast
from urllib.parse import parse_qs, quote, urlsplit

import anyio
from pydantic import BeforeValidator, Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import ocs, troubles
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.visible import quoted

_PROVIDERS: Final = "/search/providers"

Cursor = int | str


class Provider(Answer):
    """Something that can be searched: files, notes, a calendar.

    An `external` one hands the words to a service outside Nextcloud (`IExternalProvider`, since version 32).
    """

    id: str
    name: str
    external: bool = Field(default=False, validation_alias="isExternalProvider")


@dataclass(frozen=True, slots=True)
class Hit:
    """Something found; `path` is that of a file or folder, where the provider tells it."""

    title: str
    detail: str
    url: str
    path: str | None


@dataclass(frozen=True, slots=True)
class Hits:
    """A page of what one provider found; `cursor` leads to the next one, `failed` says why there is none."""

    provider: Provider
    hits: list[Hit]
    cursor: Cursor | None = None
    failed: str | None = None


def _map(value: object) -> object:
    # PHP writes an empty map as a list.
    return cast("dict[object, object]", value) if isinstance(value, dict) else {}


class _Entry(Answer):
    title: str = ""
    subline: str = ""
    url: str = Field(default="", validation_alias="resourceUrl")
    attributes: Annotated[dict[str, Any], BeforeValidator(_map)] = Field(default_factory=dict[str, Any])


class _Page(Answer):
    paginated: bool = Field(default=False, validation_alias="isPaginated")
    entries: list[_Entry] = Field(default_factory=list[_Entry])
    cursor: Cursor | None = None


_LIST = TypeAdapter(ocs.Envelope[list[Provider]])
_FOUND = TypeAdapter(ocs.Envelope[_Page])


class SearchClient:
    """Asks the providers of one person's Nextcloud."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http

    async def providers(self) -> list[Provider]:
        """Fetch what can be searched, in Nextcloud's order."""
        data, _ = await ocs.get(self._http, _PROVIDERS, _LIST)
        return data

    async def choose(self, names: Sequence[str]) -> list[Provider]:
        """Find providers by their ids or names, or all within Nextcloud when none is named.

        External ones only when named: Nextcloud's own page asks them only if the person switches that on.

        Raises:
            InvalidInput: There is no such provider: Nextcloud would answer as if it were broken.
        """
        every = await self.providers()
        chosen: dict[str, Provider] = {}
        for name in names:
            found = next(
                (one for one in every if name.casefold() in (one.id.casefold(), one.name.casefold())), None
            )
            if found is None:
                there = ", ".join(one.id for one in every)
                raise errors.InvalidInput(f"There is no provider {quoted(name)}. There are: {there}.")
            chosen[found.id] = found
        return list(chosen.values()) if names else [one for one in every if not one.external]

    async def search(
        self, provider: Provider, query: str, *, limit: int, cursor: Cursor | None = None
    ) -> Hits:
        """Fetch one page of what a provider finds."""
        asked: dict[str, str | int] = {"term": query, "limit": limit}
        if cursor is not None:
            asked["cursor"] = cursor
        path = f"{_PROVIDERS}/{quote(provider.id, safe='')}/search"
        page, _ = await ocs.get(self._http, path, _FOUND, params=asked)
        # A full last page has a cursor too, and so has every other one of some providers.
        more = page.paginated and len(page.entries) >= limit
        return Hits(provider, [_hit(one) for one in page.entries], page.cursor if more else None)

    async def search_all(self, providers: Sequence[Provider], query: str, *, limit: int) -> list[Hits]:
        """Ask several providers at once; one that fails hides none of the others.

        Raises:
            NextcloudError: All of them failed, or the access itself is refused.
        """
        found: dict[str, Hits] = {}
        refused: list[errors.NextcloudError] = []

        async def ask(provider: Provider) -> None:
            try:
                found[provider.id] = await self.search(provider, query, limit=limit)
            except (*troubles.NOT_SEEN, errors.InvalidInput) as error:
                # InvalidInput: what an app calls its provider makes no address.
                found[provider.id] = Hits(provider, [], failed=str(error))
            except errors.NextcloudError as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            for provider in providers:
                group.start_soon(ask, provider)
        if refused:
            raise refused[0]
        if providers and all(hits.failed for hits in found.values()):
            raise errors.ServerFault(f"Nothing could be searched: {found[providers[0].id].failed}")
        return [found[provider.id] for provider in providers]


def _hit(entry: _Entry) -> Hit:
    path = entry.attributes.get("path")
    return Hit(entry.title, entry.subline, entry.url, path if isinstance(path, str) else path_of(entry.url))


def path_of(url: str) -> str | None:
    """Read the path of a file out of a link into the app for files; None for any other link.

    So links the app `files_fulltextsearch`, as its code says (`lib/Service/SearchService.php` at commit
    009a3e10; there is no recording): `/apps/files/?dir=/Rec&scrollto=a.txt`.
    """
    try:
        parts = urlsplit(url)
        asked = parse_qs(parts.query)
    except ValueError:
        return None
    if not parts.path.rstrip("/").endswith("/apps/files") or "dir" not in asked:
        return None
    return "/".join((asked["dir"][0].rstrip("/"), *asked.get("scrollto", [])[:1]))
