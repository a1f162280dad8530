"""Asks the user about a project's configuration file, once for each content of it; the command `client trust`."""

import sys
from collections.abc import Sequence
from typing import Final

import typer
from platformdirs import user_data_path

from nextcloud_mcp_server.bridge.configuration import Configuration
from nextcloud_mcp_server.bridge.configuration_files import Paths, found_files
from nextcloud_mcp_server.bridge.trust import Approvals, Unapproved, is_of_project
from nextcloud_mcp_server.commands.console import result, say
from nextcloud_mcp_server.errors import CallNotAllowed
from nextcloud_mcp_server.logs import one_line

_FILE: Final = "client-approved-files.json"
_MOST_SHOWN: Final = 20


def open_approvals() -> Approvals:
    """Return what the user has said about the files of projects."""
    return Approvals(user_data_path("nextcloud-mcp-server", appauthor=False) / _FILE)


def can_ask() -> bool:
    """Tell whether a user sits at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def asked_about(files: Sequence[Unapproved], approvals: Approvals) -> bool:
    """Ask at the terminal about files that were never asked about; return whether one was approved.

    Raises:
        ConfigurationError: The answer cannot be kept.
    """
    if not can_ask():
        return False
    answers = [_ask(file, approvals) for file in files if not file.is_declined]
    return any(answers)


def refuse_unapproved(configuration: Configuration, name: str | None = None) -> None:
    """Refuse a server, or all, of a project's file that is not approved; the sentence says how to approve it.

    Raises:
        CallNotAllowed: A file that is not approved names the server.
    """
    for file in configuration.unapproved:
        if name is None or name in dict(file.servers):
            what = "Every server" if name is None else f'The server "{one_line(name)}"'
            briefly = (
                f"{what} that is meant here is in {file.path}, which does not count; the note above says why."
            )
            raise CallNotAllowed(briefly if file.is_told else f"{file.path}: {file.sentence}")


async def approve(configuration: Configuration, *, yes: bool) -> None:
    """Approve the files of the project in this folder.

    Raises:
        CallNotAllowed: The user said no, or nobody can be asked.
        ConfigurationError: The answer cannot be kept.
    """
    approvals = open_approvals()
    if not configuration.unapproved:
        result("No file of this folder waits for your approval.")
    for file in configuration.unapproved:
        if yes:
            _show(file)
            approvals.remember(file.path, file.digest, approved=True)
        elif not can_ask():
            _show(file)
            raise CallNotAllowed("Nobody can be asked here: read the file, then run `client trust --yes`.")
        elif not _ask(file, approvals):
            raise CallNotAllowed(f"{file.path} is not approved.")
        result(f"Approved as it is now: {file.path}")


async def forget(paths: Paths) -> None:
    """Take back what the user said about the files of the project in this folder.

    Raises:
        ConfigurationError: The change cannot be kept.
    """
    approvals = open_approvals()
    files = [path for path in found_files(paths) if is_of_project(path, paths) and approvals.forget(path)]
    for path in files:
        result(f"Asked about again: {path}")
    if not files:
        result("You have said nothing about a file of this folder.")


def _ask(file: Unapproved, approvals: Approvals) -> bool:
    _show(file)
    try:
        approved = typer.confirm("Do you trust it?", default=False, err=True)
    except typer.Abort:
        # No answer is none to remember.
        say("")
        return False
    approvals.remember(file.path, file.digest, approved=approved)
    return approved


def _show(file: Unapproved) -> None:
    say(f"{one_line(str(file.path))} came with this project, and names:")
    for name, purpose in file.servers[:_MOST_SHOWN]:
        say(f"  {name}: {purpose}")
    if len(file.servers) > _MOST_SHOWN:
        say(f"  and {len(file.servers) - _MOST_SHOWN} more")
    if file.allowed:
        say(f"  calls that it allows without a question: {', '.join(file.allowed[:_MOST_SHOWN])}")
    if len(file.allowed) > _MOST_SHOWN:
        say(f"  and {len(file.allowed) - _MOST_SHOWN} more")
