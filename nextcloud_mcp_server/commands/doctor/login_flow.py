"""Checks that Nextcloud lets users grant access by Login Flow v2."""

from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict
from nextcloud_mcp_server.errors import NextcloudError
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.program import PROGRAM
from nextcloud_mcp_server.settings.environment import Settings


def uses_login_flow(settings: Settings) -> bool:
    """Tell whether users grant access by Login Flow v2 with these settings."""
    if settings.multi_user:
        return settings.mode == "oidc" and settings.grant_provider == "login_flow"
    return settings.operator_credential is None


async def look_at_login_flow(nextcloud: Nextcloud) -> Finding:
    """Start a flow, and look at its first page as a browser does; the flow ends by itself."""
    try:
        started = await nextcloud.login.start()
        await nextcloud.login_pages.check(started.login_url)
    except NextcloudError as error:
        return Finding(Verdict.FAIL, "sign-in", str(error))
    return Finding(
        Verdict.OK,
        "sign-in",
        f"Nextcloud lets programs called '{PROGRAM}' sign in; whether it then asks users for a second factor that "
        "they have not set up, only its administrator sees",
    )
