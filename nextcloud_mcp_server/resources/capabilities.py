"""What the person's Nextcloud has, as a resource: `nc://capabilities`."""

import json
from collections.abc import Collection

from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.resources.kind import (
    About,
    Contents,
    Listed,
    Marks,
    Page,
    Reader,
    Typed,
    fingerprint,
)

_JSON = "application/json"


class Capabilities:
    """The version and the apps; there is one for each person, and it needs no permission of its own."""

    about = About(
        toolset="connection",
        scopes=frozenset(),
        template="nc://capabilities",
        argument="",
        name="capabilities",
        title="What this Nextcloud has",
        description="The version of the person's Nextcloud and its apps.",
        mime_type=_JSON,
        action="check_provisioning_status",
        listing="check_provisioning_status",
    )

    async def page(self, nc: Account, cursor: str | None) -> Page:  # noqa: ARG002 - the form of a kind
        """List the one there is."""
        return Page([Listed(self.about.template, self.about.title, _JSON)])

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:  # noqa: ARG002 - the form of a kind
        """Ask for version and apps."""
        known = await nc.capabilities.get()
        return Contents(json.dumps({"version": known.version, "apps": sorted(known.apps)}), _JSON)

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        """Ask whether version and apps are still the same; there is always one row in the list."""
        mark, etag = before.state if before else ("", None)
        if found := await nc.capabilities.changed(etag):
            # The etag changes with all that any app tells of itself.
            mark, etag = fingerprint((found.version, *sorted(found.apps))), found.etag
        return Marks(dict.fromkeys(values, mark), "" if listing else None, (mark, etag))

    async def complete(self, nc: Account, typed: Typed) -> list[str]:  # noqa: ARG002 - the form of a kind
        """Offer nothing: the address has no argument."""
        return []
