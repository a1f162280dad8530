"""Which paths a request may name: for what is there, and for what is to be made."""

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav
from nextcloud_mcp_server.nextcloud.sanitize import quoted


def existing(path: str) -> dav.Segments:
    """Take the path of something below the top folder apart.

    Raises:
        InvalidInput: It names the top folder, or can be no path.
    """
    segments = dav.split(path)
    if not segments:
        raise errors.InvalidInput("The top folder itself cannot be used here: name something inside it.")
    return segments


def new(path: str) -> dav.Segments:
    """Take the path of something that is to be made apart.

    Raises:
        InvalidInput: As `existing`.
        InvalidName: Nextcloud accepts no such name.
    """
    segments = existing(path)
    if any(dav.is_kept(segment) for segment in segments):
        # To a request that must overwrite nothing, Nextcloud says that the name is taken instead.
        raise errors.InvalidName(
            f"Nextcloud accepts no name that ends in {quoted(dav.KEPT_ENDING)}, which it keeps for uploads "
            "under way: choose another name."
        )
    return segments
