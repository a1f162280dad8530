"""The enabled kinds of resources, and which of them a user may see."""

from collections.abc import Sequence
from typing import Any

from mcp.server.context import ServerRequestContext

from nextcloud_mcp_server.protocol.availability import Availability, Facts
from nextcloud_mcp_server.resources.kind import Kind, no_such

Ctx = ServerRequestContext[Any, Any]


class Catalogue:
    """Finds the kind of a URI."""

    def __init__(self, kinds: Sequence[tuple[Kind, Facts]], availability: Availability) -> None:
        self.kinds = [kind for kind, _ in kinds]
        self._facts = {kind.about.name: facts for kind, facts in kinds}
        self._availability = availability

    def app_of(self, kind: Kind) -> str | None:
        """Return the app that must be installed."""
        return self._facts[kind.about.name].app

    def shown(self, ctx: Ctx) -> list[Kind]:
        """List the kinds that the caller may see."""
        return [kind for kind in self.kinds if self._availability.shows(ctx, self._facts[kind.about.name])]

    def find(self, ctx: Ctx, uri: str) -> tuple[Kind, str]:
        """Split a URI into its kind and value.

        Raises:
          NotFound: It belongs to no kind that the caller may see.
        """
        for kind in self.shown(ctx):
            value = kind.about.value(uri)
            if value is not None:
                return kind, value
        raise no_such(uri)
