"""Nextcloud's unified search: one provider per kind of content, each with its own pages."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, cast
from urllib.parse import parse_qs, quote, urlsplit

import anyio
from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import file_errors, ocs
from nextcloud_mcp_server.nextcloud.http import Answer, NextcloudHttp
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.nextcloud.top_k import cut
from nextcloud_mcp_server.nextcloud.user_cache import UserCache

_PROVIDERS: Final = "/search/providers"
#: Seconds to wait for one of several providers; the others have usually answered long before.
PATIENCE_SECONDS: Final = 8.0
#: The characters of a title, a detail or a link that are kept: all are shown shorter.
_MOST_KEPT: Final = 4_096

Cursor = int | str


class Provider(Answer):
    """A search provider: files, notes, a calendar.

    An `external` provider sends the query to a service outside Nextcloud (`IExternalProvider`, since version 32).
    """

    id: str
    name: str
    external: bool = Field(default=False, validation_alias="isExternalProvider")


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result; `path` is that of a file or folder, where the provider sends it."""

    title: str
    detail: str
    url: str
    path: str | None

    @property
    def mark(self) -> str:
        """A short hash that identifies the hit in a cursor."""
        return hashlib.sha256(f"{self.url}\0{self.title}".encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Place:
    """Where to continue with a provider: its page, the entries to skip, and the last hit shown."""

    cursor: Cursor | None = None
    skip: int = 0
    last: str = ""


@dataclass(frozen=True, slots=True)
class Hits:
    """A page of results of one provider; `failed` gives the error if there are none.

    `begin` is the place that was requested, `rest` the place after all results.
    """

    provider: Provider
    hits: list[Hit]
    begin: Place = Place()
    rest: Place | None = None
    failed: str | None = None

    def after(self, shown: int) -> Place | None:
        """Return where to continue after only the first `shown` hits."""
        if shown >= len(self.hits):
            return self.rest
        last = self.hits[shown - 1].mark if shown else self.begin.last
        return replace(self.begin, skip=self.begin.skip + shown, last=last)


def _map(value: object) -> object:
    # PHP writes an empty map as a list.
    return cast("dict[object, object]", value) if isinstance(value, dict) else {}


def _cut(text: str) -> str:
    return text[:_MOST_KEPT]


#: A text of which only the beginning is kept: twenty providers together may send much.
_Start = Annotated[str, AfterValidator(_cut)]


class _Entry(Answer):
    title: _Start = ""
    subline: _Start = ""
    url: _Start = Field(default="", validation_alias="resourceUrl")
    attributes: Annotated[dict[str, Any], BeforeValidator(_map)] = Field(default_factory=dict[str, Any])


class _Page(Answer):
    paginated: bool = Field(default=False, validation_alias="isPaginated")
    entries: list[_Entry] = Field(default_factory=list[_Entry])
    cursor: Cursor | None = None


_LIST = TypeAdapter(ocs.Envelope[list[Provider]])
_FOUND = TypeAdapter(ocs.Envelope[_Page])


class SearchClient:
    """Queries the search providers of one user's Nextcloud."""

    def __init__(
        self,
        http: NextcloudHttp,
        *,
        wide: NextcloudHttp | None = None,
        cache: UserCache | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._http = http
        self._wide = wide or http
        self._cache = cache or UserCache()
        self._patience = patience

    async def providers(self, *, known: bool = False) -> list[Provider]:
        """Fetch the providers in Nextcloud's order; `known` accepts the cached ones.

        All providers are queried at once. So one request goes first, the one for this list, unless Nextcloud has just
        accepted the credential.
        """

        async def ask() -> list[Provider]:
            return (await ocs.get(self._http, _PROVIDERS, _LIST))[0]

        return await self._cache.fact("providers", ask, anew=not (known and self._wide.just_accepted))

    async def choose(self, names: Sequence[str]) -> list[Provider]:
        """Find providers by id or name; without names, all that are not external.

        External ones must be named: Nextcloud's own page queries them only if the user enables that.

        Raises:
          InvalidInput: There is no such provider, for which Nextcloud would answer with a server error.
        """
        every = await self.providers(known=True)
        if not all(_called(name, every) for name in names):
            # The provider may be new since the list was cached.
            every = await self.providers()
        chosen: dict[str, Provider] = {}
        for name in names:
            found = _called(name, every)
            if found is None:
                there = ", ".join(one.id for one in every)
                raise errors.InvalidInput(f"There is no provider {quoted(name)}. There are: {there}.")
            chosen[found.id] = found
        return list(chosen.values()) if names else [one for one in every if not one.external]

    async def search(
        self,
        provider: Provider,
        query: str,
        *,
        limit: int,
        at: Place | None = None,
        seconds: float | None = None,
    ) -> Hits:
        """Fetch one page of a provider's results: `limit` hits, even where the provider ignores the limit.

        The Notes app returns all its results at once.
        """
        begin = at or Place()
        asked: dict[str, str | int] = {"term": query, "limit": limit}
        if begin.cursor is not None:
            asked["cursor"] = begin.cursor
        path = f"{_PROVIDERS}/{quote(provider.id, safe='')}/search"
        page, _ = await ocs.get(self._wide, path, _FOUND, params=asked, timeout_seconds=seconds)
        hits = [_hit(one) for one in page.entries]
        first = _first(hits, begin)
        shown = cut(hits[first:], limit)
        # Where the provider's page begins, for the rest of that page.
        begin = replace(begin, skip=first)
        if shown.more:
            rest = replace(begin, skip=first + limit, last=shown.rows[-1].mark)
        elif (
            page.paginated and page.cursor is not None and len(hits) >= limit and page.cursor != begin.cursor
        ):
            # A full last page has a cursor too, and some providers always send one.
            rest = Place(page.cursor)
        else:
            rest = None
        return Hits(provider, shown.rows, begin, rest)

    async def search_all(self, providers: Sequence[Provider], query: str, *, limit: int) -> list[Hits]:
        """Query several providers at once; a failing or slow one does not hide the others.

        Raises:
          NextcloudError: All of them failed, or the access itself is rejected.
        """
        found: dict[str, Hits] = {}
        refused: list[errors.NextcloudError] = []

        async def ask(provider: Provider) -> None:
            try:
                found[provider.id] = await self.search(provider, query, limit=limit, seconds=seconds)
            except errors.TimedOut as error:
                found[provider.id] = Hits(
                    provider, [], failed=str(error) if alone else _slow(provider, seconds)
                )
            except (*file_errors.NOT_SEEN, errors.InvalidInput) as error:
                # InvalidInput: the provider's id is not valid in a URL.
                found[provider.id] = Hits(provider, [], failed=str(error))
            except errors.NextcloudError as error:
                refused.append(error)

        alone = len(providers) == 1
        seconds = None if alone else self._patience
        async with anyio.create_task_group() as group:
            for provider in providers:
                group.start_soon(ask, provider)
        if refused:
            raise refused[0]
        if providers and all(hits.failed for hits in found.values()):
            raise errors.ServerFault(f"Nothing could be searched: {found[providers[0].id].failed}")
        return [found[provider.id] for provider in providers]


def _called(name: str, providers: Sequence[Provider]) -> Provider | None:
    wanted = name.casefold()
    return next((one for one in providers if wanted in (one.id.casefold(), one.name.casefold())), None)


def _slow(provider: Provider, seconds: float | None) -> str:
    return (
        f"{provider.name} did not answer within {seconds:g} seconds, so its hits are missing. Ask it alone, with "
        f'providers=["{provider.id}"]: then it may take longer.'
    )


def _first(hits: Sequence[Hit], begin: Place) -> int:
    """Return where to continue: after the hit that was shown last, if found, else after as many as shown."""
    behind = [number for number, hit in enumerate(hits, 1) if hit.mark == begin.last] if begin.last else []
    return min(behind, key=lambda number: abs(number - begin.skip), default=begin.skip)


def _hit(entry: _Entry) -> Hit:
    path = entry.attributes.get("path")
    return Hit(entry.title, entry.subline, entry.url, path if isinstance(path, str) else path_of(entry.url))


def path_of(url: str) -> str | None:
    """Return the path of a file from a link into the Files app; None for any other link.

    The app `files_fulltextsearch` uses such links, according to its code (`lib/Service/SearchService.php` at commit
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
