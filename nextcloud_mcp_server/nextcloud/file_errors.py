"""Errors about files, as sentences that name the file and the next step."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.sanitize import quoted

#: Errors that are ignored when the result of a change is fetched. The change has happened, and these say nothing
#: about it. A rejected credential and a wrong account are still raised.
NOT_SEEN: Final = (
    errors.Unreachable, errors.NotNextcloud, errors.Forbidden, errors.NotFound, errors.Locked,
    errors.Throttled, errors.ServerFault, errors.Unavailable, errors.TooLarge,
)  # fmt: skip


#: Errors that concern the whole access, not one request. A caller that collects other errors raises these: the
#: access must be stopped, and a wrong account logged.
OF_ACCESS: Final = (errors.CredentialRejected, errors.WrongAccount)


@contextmanager
def in_doubt(path: str) -> Generator[None]:
    """Turn a lost response to a change into an error that says the change may have happened."""
    try:
        yield
    except errors.TlsFailed:
        raise
    except errors.Unreachable as error:
        raise errors.TimedOut(
            f"The connection broke before Nextcloud answered, so the change to {quoted(path)} may or may not "
            "have happened. Check with nc_files_get_info before you try again."
        ) from error


def broken(came: int, size: int, path: str) -> errors.Unreachable:
    """Return the error for a file of which only a part arrived."""
    return errors.Unreachable(
        f"The connection broke after {came} of {size} bytes of {quoted(path)}: try again."
    )


def perhaps(error: errors.NextcloudError) -> str:
    """Return a text for an error that says the change may have happened, where that is unknown."""
    unknown = isinstance(error, errors.Unreachable | errors.ServerFault | errors.NotNextcloud)
    return ", as far as is known" if unknown and not isinstance(error, errors.TlsFailed) else ""


def missing(path: str) -> str:
    """Return the text for a missing file or folder, and how to find it."""
    return f"There is no {quoted(path)}. Look around with nc_files_list_folder or nc_files_search_items."


def no_folder_for(path: str) -> str:
    """Return the text for a missing parent folder."""
    return f"The folder for {quoted(path)} does not exist: create it with nc_files_create_folder first."


def changed(path: str, current: str | None) -> errors.EtagMismatch:
    """Return the error for a concurrent change. `current` is not shown; see `error_mapping.CHANGED`."""
    return errors.EtagMismatch(
        f"{quoted(path)} changed since it was read, so it was left alone. Read it again, look at what has changed, "
        "and pass the etag that this read answers.",
        current_etag=current,
    )


def taken(path: str) -> errors.AlreadyExists:
    """Return the error for a name that is taken."""
    return errors.AlreadyExists(
        f"{quoted(path)} exists already. Choose another name, or read it and pass its etag to replace it."
    )


def in_the_way(path: str, name: str) -> errors.AlreadyExists:
    """Return the error for a target that exists: often the folder that `name` was to be moved into."""
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
    """Return the error for a response about another resource."""
    return errors.ServerFault(f"Nextcloud's answer said nothing about {quoted(path)}: try again.")
