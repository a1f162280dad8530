"""Configures a chat client for this server, or prints the configuration, and creates keys."""

import sys
from dataclasses import dataclass
from pathlib import Path

from nextcloud_mcp_server.commands.client_config.chat_client import ChatClient
from nextcloud_mcp_server.commands.client_config.snippet import ServerAddress, ServerCommand, Snippet, snippet
from nextcloud_mcp_server.commands.console import result, say
from nextcloud_mcp_server.commands.serve import mcp_url
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.crypto import new_key


@dataclass(frozen=True, slots=True)
class Writing:
    """Whether to write the entry to the client's file, or to `file`; `yes` writes without confirmation."""

    wanted: bool
    yes: bool
    file: Path | None


def print_config(settings: Settings, client: ChatClient, *, http: bool, writing: Writing) -> None:
    """Print the entry to stdout and its place to stderr, or write it to the client's file.

    Raises:
      ConfigurationError: The client has no such form, or its file was left unchanged.
    """
    if not writing.wanted and (writing.yes or writing.file is not None):
        raise ConfigurationError("--yes and --file are for --write: add it, or leave them out.")
    if settings.multi_user:
        _print_address(settings, client, writing)
        return
    for sentence in settings.warnings:
        say(f"Note: {sentence}")
    if http:
        # It imports the SDK, which takes most of a second and is not needed for the other form.
        from nextcloud_mcp_server.server.modes.personal import bearer_secret  # noqa: PLC0415 - see above

        server = ServerAddress(mcp_url(settings, settings.port), bearer_secret(settings), _chosen(settings))
    else:
        server = this_command(settings)
    _give(client, snippet(client, server), writing, secret=http and not settings.no_local_auth)
    if not http and settings.not_carried:
        say(
            f"Left out, because they are secret: {', '.join(settings.not_carried)}. Put each into a file that only you "
            "can read, and name it with …_FILE; or set them in the client's own settings."
        )
    if http and not settings.no_local_auth:
        say("It holds the secret of your server: keep it to yourself.")
    if http and _chosen(settings):
        say("This client is shown the toolsets named here, as far as the server was started with them.")


def _give(client: ChatClient, found: Snippet, writing: Writing, *, secret: bool = False) -> None:
    if writing.wanted:
        from nextcloud_mcp_server.commands.write_config import write_config  # noqa: PLC0415 - seldom needed

        write_config(client, found, yes=writing.yes, file=writing.file, secret=secret)
        return
    say(found.place)
    result(found.text)


def _print_address(settings: Settings, client: ChatClient, writing: Writing) -> None:
    """Print how each user adds a multi-user server; the text contains no secret."""
    if client is ChatClient.CLAUDE_DESKTOP:
        say("Settings → Connectors → Add custom connector, with this address:")
        result(settings.resource_url)
        if writing.wanted:
            raise ConfigurationError("Claude Desktop keeps connectors with the user's account: add it there.")
    else:
        _give(client, snippet(client, ServerAddress(url=settings.resource_url, secret=None)), writing)
    say("The client then opens a browser to sign in.")


def print_key() -> None:
    """Print a new encryption key."""
    result(new_key())
    say(
        "Set it in TOKEN_ENCRYPTION_KEYS, or put it into the file that TOKEN_ENCRYPTION_KEYS_FILE names. If there are "
        "older keys, keep them after it: they open what they sealed. Keep a copy of the key in another place than the "
        "backups of the database: without it every user has to connect again."
    )


def this_command(settings: Settings) -> ServerCommand:
    """Return the command that starts this installation with these toolsets, from any folder."""
    what = ["--sandbox"] if settings.sandbox else ["--nextcloud", settings.require_nextcloud()]
    if settings.sandbox and settings.sandbox_version != Settings.model_fields["sandbox_version"].default:
        what += ["--sandbox-version", settings.sandbox_version]
    if toolsets := _chosen(settings):
        what += ["--toolsets", ",".join(toolsets)]
    folder = Path(sys.executable).parent
    for script in (folder / "nextcloud-mcp-server", folder / "nextcloud-mcp-server.exe"):
        if script.is_file():
            return ServerCommand(str(script), ("serve", *what), settings.carried)
    return ServerCommand(sys.executable, ("-m", "nextcloud_mcp_server", "serve", *what), settings.carried)


def _chosen(settings: Settings) -> tuple[str, ...]:
    """Return the names of the enabled toolsets if they differ from the default."""
    return () if settings.toolsets == Settings.model_fields["toolsets"].default else settings.toolsets
