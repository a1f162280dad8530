"""Writes this server's entry to a chat client's settings, after the user has seen the changes."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import unified_diff
from pathlib import Path

import typer

from nextcloud_mcp_server.commands.client_config.chat_client import ChatClient
from nextcloud_mcp_server.commands.client_config.edit import NotEdited, edited
from nextcloud_mcp_server.commands.client_config.settings_files import Folders, settings_file
from nextcloud_mcp_server.commands.client_config.snippet import Snippet
from nextcloud_mcp_server.commands.client_config.user_file import UserFile
from nextcloud_mcp_server.commands.console import result, say
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.nextcloud.sanitize import shown


def write_config(
    client: ChatClient, found: Snippet, *, yes: bool, file: Path | None = None, secret: bool = False
) -> None:
    """Change a client's settings, or run the client's own command; `secret`: the entry contains one.

    Raises:
      ConfigurationError: It cannot be done, or the user did not agree; nothing was changed.
    """
    if client is ChatClient.CLAUDE_CODE:
        _run_commands(found, yes=yes, secret=secret)
        return
    path = file or settings_file(client, Folders.here())
    if path is None:
        say(found.place)
        result(found.text)
        raise ConfigurationError(
            "This client keeps it on its own pages, and no file can be written: paste it there."
        )
    _write(path, found, yes=yes, secret=secret)


def _write(path: Path, found: Snippet, *, yes: bool, secret: bool) -> None:
    known = UserFile.read(path)
    try:
        new = edited(
            known.path.suffix if known.path.suffix in _KINDS else path.suffix, known.text, found.text
        )
    except (NotEdited, KeyError) as error:
        reason = error if isinstance(error, NotEdited) else "it is of another kind than this client's"
        say(found.place)
        result(found.text)
        raise ConfigurationError(
            f"{path} was left as it is: {reason}. Mend it, or put the text above into it yourself."
        ) from None
    if new == known.text:
        say(f"{path} says so already; nothing was changed.")
        return
    for line in _diff(known, new):
        # The file may come from an untrusted project, and a terminal interprets hidden characters.
        result(shown(line))
    if secret and known.is_shared:
        say("Other users of this computer can read that file, and the entry holds the secret of your server.")
    # The target of a symbolic link, which an untrusted project may contain too.
    place = shown(str(known.path))
    _agree(f"Write this into {place}?" if known.exists else f"Make {place}?", yes=yes)
    backup = known.replace(new, now=datetime.now(UTC).astimezone())
    say(f"Written. What was there before is in {backup}." if backup else "Written.")
    say("Restart the client, or have it read its settings again.")


_KINDS = frozenset({".json", ".jsonc", ".toml", ".yaml"})


def _diff(known: UserFile, new: str) -> Iterable[str]:
    """Return the changes in the format of `diff -u`."""
    before, after = known.text.splitlines(), new.splitlines()
    return unified_diff(before, after, str(known.path), str(known.path), lineterm="")


def _agree(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError("There is no terminal to ask in, so nothing was changed: add --yes.")
    if not typer.confirm(question, err=True):
        raise ConfigurationError("Nothing was changed.")


def _run_commands(found: Snippet, *, yes: bool, secret: bool) -> None:
    """Run the client's own commands; removing an earlier entry may fail if there is none."""
    remove, add = (shlex.split(line) for line in found.text.splitlines())
    program = shutil.which(add[0])
    result(found.text)
    if program is None:
        raise ConfigurationError(
            f"There is no command {add[0]} here: install the client, or run this where it is."
        )
    if secret:
        say("While they run, other users of this computer can see the secret of your server among what runs.")
    _agree("Run these two commands?", yes=yes)
    try:
        subprocess.run([program, *remove[1:]], check=False, capture_output=True)  # noqa: S603 - our own words
        done = subprocess.run([program, *add[1:]], check=False, capture_output=True, text=True)  # noqa: S603 - as above
    except OSError as error:
        raise ConfigurationError(f"{program} cannot be run: {error.strerror}.") from None
    if done.returncode:
        raise ConfigurationError(f"{add[0]} refused it: {(done.stderr or done.stdout).strip()[:500]}")
    say((done.stdout or done.stderr).strip() or "Done.")
