"""A Nextcloud with a name and a logo of its own, for tests and pictures of the pages."""

from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.nextcloud.theming import Theming
from nextcloud_mcp_server.sandbox.state import State


class KnownCloud:
    """A theming that is known already, and how often a page wanted it."""

    def __init__(self, theming: Theming | None) -> None:
        self.current = theming
        self.wishes = 0

    async def wanted(self) -> Theming | None:
        self.wishes += 1
        return self.current


def family_cloud() -> KnownCloud:
    """Return the Nextcloud of the pictures, with Nextcloud's usual colour."""
    return KnownCloud(Theming("Family Cloud", "#00679e", Picture(*State().logo)))
