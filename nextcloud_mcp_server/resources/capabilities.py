"""The apps of the user's Nextcloud as a resource: `nc://capabilities`."""

import json
from collections.abc import Collection

from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.resources import kind
from nextcloud_mcp_server.resources.kind import About, Contents, Listed, Marks, Page, Reader, Typed


class Capabilities:
    """The kind with the version and the apps; one resource per user, which requires no scope."""

    about = About(
        "connection",
        template="nc://capabilities",
        name="capabilities",
        title="What this Nextcloud has",
        description="The version of the person's Nextcloud and its apps.",
        action="check_provisioning_status",
        listing="check_provisioning_status",
        free=True,
    )

    async def page(self, nc: Account, cursor: str | None) -> Page:  # noqa: ARG002 - the form of a kind
        """List the single resource."""
        return Page([Listed(self.about.template, self.about.title, kind.JSON)])

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:  # noqa: ARG002 - the form of a kind
        """Fetch version and apps."""
        known = await nc.capabilities.get()
        return Contents(json.dumps({"version": known.version, "apps": sorted(known.apps)}), kind.JSON)

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        """Check whether version and apps have changed; the list always has one row."""
        mark, etag = before.state if before else ("", None)
        if found := await nc.capabilities.changed(etag):
            # The etag changes with any capability of any app.
            mark, etag = kind.fingerprint((found.version, *sorted(found.apps))), found.etag
        return Marks(dict.fromkeys(values, mark), "" if listing else None, (mark, etag))

    async def complete(self, nc: Account, typed: Typed) -> list[str]:  # noqa: ARG002 - the form of a kind
        """Return nothing: the URI has no argument."""
        return []
