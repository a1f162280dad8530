"""Checks for changes by etags alone, as cheaply as Nextcloud allows."""

from collections.abc import Collection, Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav, entries
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp

Place = Literal["files", "calendars", "addressbooks"]

#: Nextcloud's own header: list subscriptions as calendars of their own.
_SUBSCRIBED: Final = {"X-NC-CalDAV-Webcal-Caching": "On"}

#: The REPORT that reads many members of a collection.
_MULTIGET: Final[Mapping[Place, str]] = {
    "calendars": "cal:calendar-multiget",
    "addressbooks": "card:addressbook-multiget",
}


class WatchClient:
    """Fetches the current etags of one user's resources."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http
        users = dav.Tree.of("users", http.uid).root
        self._trees: dict[Place, dav.Tree] = {
            "files": dav.Tree.of("files", http.uid),
            "calendars": dav.Tree.of("calendars", http.uid),
            "addressbooks": dav.Tree(("addressbooks", *users)),
        }

    async def etag(self, place: Place, path: str) -> str:
        """Fetch the etag of one resource; "" if it does not exist.

        A folder's etag changes with everything below it, including shares and other storages.
        """
        try:
            segments = dav.split(path)
            found = await self._ask(place, segments, "d:getetag", depth="0")
        except (errors.NotFound, errors.InvalidInput):
            return ""
        return next((etag for name, etag in found if dav.same(name, segments)), "")

    async def etags(self, place: Place, paths: Collection[str]) -> dict[str, str]:
        """Fetch the etags of many resources, "" for missing ones: members of one collection in one request.

        For files Nextcloud has no such request, so each is requested separately.
        """
        found: dict[str, str] = {}
        together: dict[str, dict[str, dav.Segments]] = {}
        for path in paths:
            try:
                segments = dav.split(path)
            except errors.InvalidInput:
                found[path] = ""
                continue
            if place in _MULTIGET and len(segments) == len(("collection", "member")):
                together.setdefault(segments[0], {})[path] = segments
            else:
                found[path] = await self.etag(place, path)
        for collection, members in together.items():
            if len(members) > 1:
                found |= await self._members(place, collection, members)
            else:
                found |= {path: await self.etag(place, path) for path in members}
        return found

    async def _members(
        self, place: Place, collection: str, members: Mapping[str, dav.Segments]
    ) -> dict[str, str]:
        # The hrefs as the server knows them, which begin with the path of the configured base URL.
        prefix, tree = urlsplit(str(self._http.base)).path, self._trees[place]
        hrefs = [f"{prefix}{tree.url(segments)}" for segments in members.values()]
        body = dav.multiget(_MULTIGET[place], ["d:getetag"], hrefs)
        try:
            found = await self._send("REPORT", place, (collection,), body, "d:getetag", depth="1")
        except errors.NotFound:
            found = []
        except errors.Forbidden:
            # Behind a proxy that changes the path, the server does not know these hrefs.
            return {path: await self.etag(place, path) for path in members}
        return {
            path: next((etag for name, etag in found if dav.same(name, segments)), "")
            for path, segments in members.items()
        }

    async def states(self, place: Place) -> dict[str, str]:
        """Fetch the state of each calendar or address book, which changes with everything in it."""
        found = await self._ask(place, (), "d:sync-token", depth="1")
        return {name[0]: token for name, token in found if len(name) == 1 and token}

    async def _ask(
        self, place: Place, segments: dav.Segments, wanted: str, *, depth: str
    ) -> list[tuple[dav.Segments, str]]:
        return await self._send("PROPFIND", place, segments, dav.propfind([wanted]), wanted, depth=depth)

    async def _send(
        self, method: str, place: Place, segments: dav.Segments, body: bytes, wanted: str, *, depth: str
    ) -> list[tuple[dav.Segments, str]]:
        tree, headers = self._trees[place], {"Depth": depth, **_SUBSCRIBED}
        async with entries.ask(self._http, method, tree, segments, body=body, headers=headers) as answers:
            return [(name, one.text(wanted)) async for name, one in answers]
