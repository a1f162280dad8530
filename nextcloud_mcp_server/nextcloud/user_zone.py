"""The time zone of a user."""

from datetime import UTC, tzinfo

from nextcloud_mcp_server.formats import zones
from nextcloud_mcp_server.nextcloud.capabilities import CapabilitiesClient
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp


async def of(http: NextcloudHttp) -> tzinfo:
    """Fetch the user's time zone; UTC where Nextcloud does not know it."""
    return zones.found((await CapabilitiesClient(http).get()).timezone) or UTC
