"""Refuses a local folder that is not safe to open."""

from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings.fields import Fields


def refuse(settings: Fields) -> None:
    """Refuse a `LOCAL_FOLDER` that other users could reach, or that holds this server's keys.

    Raises:
        ConfigurationError: With the reason and the fix.
    """
    if settings.local_folder is None:
        return
    if settings.multi_user or settings.transport != "stdio":
        # A caller over HTTP may be at another computer.
        raise ConfigurationError("LOCAL_FOLDER is for one user over stdio alone: leave it out.")
    folder, ours = settings.local_folder.resolve(), settings.data_path.resolve()
    if not settings.local_folder.is_absolute() or not folder.is_dir():
        raise ConfigurationError("LOCAL_FOLDER names no folder: give the full path of one that is there.")
    if ours.is_relative_to(folder) or folder.is_relative_to(ours):
        raise ConfigurationError(
            "LOCAL_FOLDER contains this server's data folder, where its keys are, or is inside it: name another folder."
        )
