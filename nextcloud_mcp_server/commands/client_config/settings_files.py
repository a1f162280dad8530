"""The settings file of each chat client, on each system."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from nextcloud_mcp_server.commands.client_config.chat_client import ChatClient

_CLAUDE_DESKTOP = "claude_desktop_config.json"


@dataclass(frozen=True, slots=True)
class Folders:
    """The settings folders of the user on this computer.

    `config` is `~/.config` or the value of `XDG_CONFIG_HOME`, `~/Library/Application Support`, or `%APPDATA%`.
    """

    system: str
    home: Path
    config: Path

    @classmethod
    def here(cls) -> "Folders":
        """Return the folders of this computer."""
        config = platformdirs.user_config_path(appauthor=False, roaming=True)
        return cls(sys.platform, Path.home(), config)

    @property
    def dot_config(self) -> Path:
        """The folder in which programs from Linux keep their settings, also on a Mac."""
        return self.home / ".config" if self.system in {"darwin", "win32"} else self.config


def settings_file(client: ChatClient, folders: Folders) -> Path | None:
    """Return the file with a client's servers for all projects; None for clients without such a file."""
    find = _FILES.get(client)
    return find(folders) if find else None


def _opencode(folders: Folders) -> Path:
    """Choose between the two names that opencode reads: the one with comments takes precedence."""
    folder = folders.dot_config / "opencode"
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.is_file() else folder / "opencode.json"


def _claude_desktop(folders: Folders) -> Path:
    """Return the file, which has another place where the client was installed as a Windows package."""
    if folders.system == "win32":
        packages = folders.config.parent / "Local" / "Packages"
        for folder in sorted(packages.glob("Claude_*/LocalCache/Roaming/Claude")):
            return folder / _CLAUDE_DESKTOP
    return folders.config / "Claude" / _CLAUDE_DESKTOP


def _lm_studio(folders: Folders) -> Path:
    """Return the file: older installations, and upgrades of them, use another one."""
    usual, older = folders.home / ".lmstudio", folders.home / ".cache" / "lm-studio"
    return (older if older.is_dir() and not usual.is_dir() else usual) / "mcp.json"


def _zed(folders: Folders) -> Path:
    folder = folders.config / "Zed" if folders.system == "win32" else folders.dot_config / "zed"
    return folder / "settings.json"


def _goose(folders: Folders) -> Path:
    windows = folders.system == "win32"
    folder = folders.config / "Block" / "goose" / "config" if windows else folders.dot_config / "goose"
    return folder / "config.yaml"


def _at_home(*parts: str) -> Callable[[Folders], Path]:
    return lambda folders: folders.home.joinpath(*parts)


_FILES: dict[ChatClient, Callable[[Folders], Path]] = {
    ChatClient.CLAUDE_DESKTOP: _claude_desktop,
    ChatClient.VSCODE: lambda folders: folders.config / "Code" / "User" / "mcp.json",
    ChatClient.CURSOR: _at_home(".cursor", "mcp.json"),
    ChatClient.CODEX: _at_home(".codex", "config.toml"),
    ChatClient.GEMINI: _at_home(".gemini", "settings.json"),
    ChatClient.QWEN: _at_home(".qwen", "settings.json"),
    ChatClient.OPENCODE: _opencode,
    ChatClient.ZED: _zed,
    ChatClient.WINDSURF: _at_home(".codeium", "windsurf", "mcp_config.json"),
    ChatClient.LM_STUDIO: _lm_studio,
    ChatClient.GOOSE: _goose,
}
