"""Looks at etags alone: whether something has changed, as cheaply as Nextcloud can tell."""

from contextlib import aclosing
from typing import Final, Literal

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav, entries
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp

Place = Literal["files", "calendars", "addressbooks"]

#: Shows what is subscribed to as a calendar of its own (Nextcloud's own header).
_SUBSCRIBED: Final = {"X-NC-CalDAV-Webcal-Caching": "On"}


class WatchClient:
    """Asks what one person's things look like now."""

    def __init__(self, http: NextcloudHttp) -> None:
        self._http = http
        users = dav.Tree.of("users", http.uid).root
        self._trees: dict[Place, dav.Tree] = {
            "files": dav.Tree.of("files", http.uid),
            "calendars": dav.Tree.of("calendars", http.uid),
            "addressbooks": dav.Tree(("addressbooks", *users)),
        }

    async def etag(self, place: Place, path: str) -> str:
        """Fetch the etag of one thing; empty when there is none by that name.

        A folder's changes with everything below it, shares and other storages included.
        """
        try:
            segments = dav.split(path)
            found = await self._ask(place, segments, "d:getetag", depth="0")
        except (errors.NotFound, errors.InvalidInput):
            return ""
        return next((etag for name, etag in found if dav.same(name, segments)), "")

    async def states(self, place: Place) -> dict[str, str]:
        """Fetch the state of each calendar or address book, which changes with everything in it."""
        found = await self._ask(place, (), "d:sync-token", depth="1")
        return {name[0]: token for name, token in found if len(name) == 1 and token}

    async def _ask(
        self, place: Place, segments: dav.Segments, wanted: str, *, depth: str
    ) -> list[tuple[dav.Segments, str]]:
        tree = self._trees[place]
        answers = entries.ask(
            self._http,
            "PROPFIND",
            tree.url(segments),
            tree=tree,
            body=dav.propfind([wanted]),
            headers={"Depth": depth, **_SUBSCRIBED},
        )
        async with aclosing(answers):
            return [(name, one.text(wanted)) async for some in answers for name, one in some]
