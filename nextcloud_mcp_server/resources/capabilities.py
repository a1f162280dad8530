"""The apps of the user's Nextcloud as a resource: `nc://capabilities`."""

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
    """The kind with the version and the apps; one resource per user, which requires no scope."""

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
        """List the single resource."""
        return Page([Listed(self.about.template, self.about.title, _JSON)])

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:  # noqa: ARG002 - the form of a kind
        """Fetch version and apps."""
        known = await nc.capabilities.get()
        return Contents(json.dumps({"version": known.version, "apps": sorted(known.apps)}), _JSON)

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        """Check whether version and apps have changed; the list always has one row."""
        mark, etag = before.state if before else ("", None)
        if found := await nc.capabilities.changed(etag):
            # The etag changes with any capability of any app.
            mark, etag = fingerprint((found.version, *sorted(found.apps))), found.etag
        return Marks(dict.fromkeys(values, mark), "" if listing else None, (mark, etag))

    async def complete(self, nc: Account, typed: Typed) -> list[str]:  # noqa: ARG002 - the form of a kind
        """Return nothing: the URI has no argument."""
        return []
