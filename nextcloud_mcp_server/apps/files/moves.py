"""Moves several files into one folder, one after the other, and returns the result for each."""

from collections.abc import Sequence
from typing import Final

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav, paths
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.sanitize import quoted
from nextcloud_mcp_server.tools import note_pictures
from nextcloud_mcp_server.tools.file_results import Moved, NotMoved
from nextcloud_mcp_server.tools.progress import Progress

MOST: Final = 100

#: Errors that concern one file alone; others may still be moved.
_ITS_OWN: Final = (
    errors.NotFound, errors.Forbidden, errors.Conflict, errors.Locked, errors.InvalidName, errors.InvalidInput,
)  # fmt: skip
#: Errors that may concern all remaining files as well. A rejected credential is not among them: it ends the call,
#: and the guard says that a part was done.
_EVERYBODYS: Final = (
    errors.Unreachable, errors.NotNextcloud, errors.Throttled, errors.ServerFault, errors.Unavailable,
    errors.StorageFull,
)  # fmt: skip


async def move_all(nc: Account, sources: Sequence[str], folder: str, progress: Progress) -> Moved:
    """Move files into an existing folder; one request for each.

    Raises:
      InvalidInput: The folder is a file, or two of the sources have the same name.
      NotFound: There is no such folder.
      NextcloudMcpError: The error of the only one that was tried.
    """
    await _check(nc, sources, folder)
    moved: list[str] = []
    failed: list[NotMoved] = []
    notes: list[str | None] = []
    for source in sources:
        try:
            moved.append(await nc.files.move_into(folder, source))
            notes.append(await note_pictures.after_move(nc, source, moved[-1]))
        except _ITS_OWN as error:
            failed.append(NotMoved(path=source, reason=str(error)))
        except _EVERYBODYS as error:
            if not moved and not failed:
                raise
            failed.append(NotMoved(path=source, reason=str(error)))
            break
        await progress.report(len(moved) + len(failed), len(sources), f"Moved {len(moved)} of {len(sources)}")
    return Moved(
        folder=dav.join(dav.split(folder)),
        moved=moved,
        failed=failed or None,
        not_tried=list(sources[len(moved) + len(failed) :]) or None,
        note=" ".join(filter(None, notes)) or None,
    )


async def _check(nc: Account, sources: Sequence[str], folder: str) -> None:
    """Check, before anything is moved, that no move must fail."""
    names = [paths.existing(source)[-1] for source in sources]
    if len(set(names)) < len(names):
        raise errors.InvalidInput(
            "Two of these have the same name, so they cannot be in one folder: move them by themselves."
        )
    if not (await nc.files.info(folder)).is_folder:
        raise errors.InvalidInput(f"{quoted(folder)} is a file: name the folder to move these into.")
