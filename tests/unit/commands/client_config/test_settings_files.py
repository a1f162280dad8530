from pathlib import Path

import pytest

from nextcloud_mcp_server.commands.client_config.chat_client import ChatClient
from nextcloud_mcp_server.commands.client_config.settings_files import Folders, settings_file

#: Below the user's folder, by what the makers document: Linux, macOS, Windows.
PLACES: dict[ChatClient, tuple[str, ...]] = {
    ChatClient.CLAUDE_DESKTOP: (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    ChatClient.VSCODE: (
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
    ),
    ChatClient.CURSOR: (".cursor/mcp.json",) * 3,
    ChatClient.CODEX: (".codex/config.toml",) * 3,
    ChatClient.GEMINI: (".gemini/settings.json",) * 3,
    ChatClient.QWEN: (".qwen/settings.json",) * 3,
    ChatClient.OPENCODE: (".config/opencode/opencode.json",) * 3,
    ChatClient.ZED: (
        ".config/zed/settings.json",
        ".config/zed/settings.json",
        "AppData/Roaming/Zed/settings.json",
    ),
    ChatClient.WINDSURF: (".codeium/windsurf/mcp_config.json",) * 3,
    ChatClient.LM_STUDIO: (".lmstudio/mcp.json",) * 3,
    ChatClient.GOOSE: (
        ".config/goose/config.yaml",
        ".config/goose/config.yaml",
        "AppData/Roaming/Block/goose/config/config.yaml",
    ),
}
SYSTEMS = {
    "linux": ".config",
    "darwin": "Library/Application Support",
    "win32": "AppData/Roaming",
}


def folders(home: Path, system: str) -> Folders:
    return Folders(system, home, home / SYSTEMS[system])


@pytest.mark.parametrize("client", PLACES)
def test_each_client_s_file_is_where_its_maker_says(client: ChatClient, tmp_path: Path) -> None:
    found = [settings_file(client, folders(tmp_path, system)) for system in SYSTEMS]

    assert [path and path.relative_to(tmp_path).as_posix() for path in found] == list(PLACES[client])


def test_every_client_has_a_file_or_another_way() -> None:
    here = Folders.here()

    without = {client for client in ChatClient if settings_file(client, here) is None}

    assert without == {ChatClient.CLAUDE_CODE, ChatClient.OPEN_WEBUI}
    assert set(PLACES) == set(ChatClient) - without


def test_the_folder_for_settings_follows_the_user_s_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))

    path = settings_file(ChatClient.ZED, Folders.here())

    assert path == tmp_path / "settings" / "zed" / "settings.json"


def test_the_file_of_opencode_with_comments_wins_where_it_is(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").touch()
    (folder / "opencode.jsonc").touch()

    assert settings_file(ChatClient.OPENCODE, folders(tmp_path, "linux")) == folder / "opencode.jsonc"


def test_claude_desktop_as_a_package_of_windows_keeps_its_file_in_the_package(tmp_path: Path) -> None:
    package = tmp_path / "AppData/Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude"
    package.mkdir(parents=True)

    found = settings_file(ChatClient.CLAUDE_DESKTOP, folders(tmp_path, "win32"))

    assert found == package / "claude_desktop_config.json"


def test_lm_studio_of_an_older_installation_keeps_its_file_in_the_cache(tmp_path: Path) -> None:
    (tmp_path / ".cache" / "lm-studio").mkdir(parents=True)
    older = settings_file(ChatClient.LM_STUDIO, folders(tmp_path, "darwin"))
    (tmp_path / ".lmstudio").mkdir()
    newer = settings_file(ChatClient.LM_STUDIO, folders(tmp_path, "darwin"))

    assert older == tmp_path / ".cache" / "lm-studio" / "mcp.json"
    assert newer == tmp_path / ".lmstudio" / "mcp.json"
