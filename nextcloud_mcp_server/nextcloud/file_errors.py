"""What can go wrong with files, in sentences that name the file and the next step."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.sanitize import quoted

#: What may go wrong when the result of a change is looked at. The change has happened, so these say
#: nothing about it; a rejected credential or a mix-up of accounts still has to be told.
NOT_SEEN: Final = (
    errors.Unreachable, errors.NotNextcloud, errors.Forbidden, errors.NotFound, errors.Locked,
    errors.Throttled, errors.ServerFault, errors.Unavailable, errors.TooLarge,
)  # fmt: skip


#: What concerns the whole access, not the one thing that was asked for: a caller that makes a note of other errors
#: lets these through, for the access has to be stopped, and a mix-up of accounts written down.
OF_ACCESS: Final = (errors.CredentialRejected, errors.WrongAccount)


@contextmanager
def in_doubt(path: str) -> Generator[None]:
    """Say that a change may have happened although its answer was lost."""
    try:
        yield
    except errors.TlsFailed:
        raise
    except errors.Unreachable as error:
        raise errors.TimedOut(
            f"The connection broke before Nextcloud answered, so the change to {quoted(path)} may or may not "
            "have happened. Check with nc_files_get_info before you try again."
        ) from error


def perhaps(error: errors.NextcloudError) -> str:
    """Say of what failed that it may be so all the same, where no one knows: its answer was lost, or was none."""
    unknown = isinstance(error, errors.Unreachable | errors.ServerFault | errors.NotNextcloud)
    return ", as far as is known" if unknown and not isinstance(error, errors.TlsFailed) else ""


def missing(path: str) -> str:
    """Say that something is not there, and how to find it."""
    return f"There is no {quoted(path)}. Look around with nc_files_list_folder or nc_files_search_items."


def no_folder_for(path: str) -> str:
    """Say that the folder something should go into is not there."""
    return f"The folder for {quoted(path)} does not exist: create it with nc_files_create_folder first."


def changed(path: str, current: str | None) -> errors.EtagMismatch:
    """Say that someone else changed it. `current` is for this program alone; see `refusal.CHANGED`."""
    return errors.EtagMismatch(
        f"{quoted(path)} changed since it was read, so it was left alone. Read it again, look at what has changed, "
        "and pass the etag that this read answers.",
        current_etag=current,
    )


def taken(path: str) -> errors.AlreadyExists:
    """Say that a name is taken."""
    return errors.AlreadyExists(
        f"{quoted(path)} exists already. Choose another name, or read it and pass its etag to replace it."
    )


def in_the_way(path: str, name: str) -> errors.AlreadyExists:
    """Say that something is where `name` was to go: often the folder that it was meant to go into."""
    into = f"{path}/{name}"
    inside = (
        ""
        if f"/{path}".endswith(f"/{name}")
        else f" If that is the folder to put it into, pass {quoted(into)}."
    )
    return errors.AlreadyExists(
        f"{quoted(path)} exists already.{inside} "
        "To replace a file, pass its etag as overwrite_etag; else choose another name."
    )


def not_what_was_asked(path: str) -> errors.ServerFault:
    """Say that an answer was about something else."""
    return errors.ServerFault(f"Nextcloud's answer said nothing about {quoted(path)}: try again.")
