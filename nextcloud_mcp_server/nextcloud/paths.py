"""Validates the paths of existing files and of files to create."""

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav
from nextcloud_mcp_server.nextcloud.sanitize import quoted


def existing(path: str) -> dav.Segments:
    """Split the path of something below the top folder.

    Raises:
      InvalidInput: It is the top folder, or not a valid path.
    """
    segments = dav.split(path)
    if not segments:
        raise errors.InvalidInput("The top folder itself cannot be used here: name something inside it.")
    return segments


def new(path: str) -> dav.Segments:
    """Split the path of something to create.

    Raises:
      InvalidInput: As `existing`.
      InvalidName: Nextcloud does not accept the name.
    """
    segments = existing(path)
    if any(dav.is_kept(segment) for segment in segments):
        # For a conditional request, Nextcloud would answer that the name is taken.
        raise errors.InvalidName(
            f"Nextcloud accepts no name that ends in {quoted(dav.KEPT_ENDING)}, which it keeps for uploads "
            "under way: choose another name."
        )
    return segments
