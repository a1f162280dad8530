"""`config CLIENT --write`, as it is typed: what is shown, asked, written, and left alone."""

import io
import json
import os
import pty
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nextcloud_mcp_server import cli
from nextcloud_mcp_server.settings.names import known_variables

Patch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]

CLOUD = "https://cloud.example.org"
SETTINGS = '{\n  // mine\n  "ui_font_size": 16,\n}\n'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: Patch) -> Path:
    for name in (*known_variables(), "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path


@pytest.fixture
def zed(home: Path) -> Path:
    path = home / ".config" / "zed" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(SETTINGS)
    return path


def run(
    monkeypatch: Patch, capsys: Capture, client: str, *options: str, answer: str | None = None
) -> tuple[int, str, str]:
    """Run the command line; a terminal gives the answer."""
    monkeypatch.setattr("sys.stdin", io.StringIO("") if answer is None else Terminal(f"{answer}\n"))
    monkeypatch.setattr(
        sys, "argv", ["nextcloud-mcp-server", "config", client, "--nextcloud", CLOUD, *options]
    )
    with pytest.raises(SystemExit) as caught:
        cli.main()
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


def test_the_change_is_shown_and_asked_about_and_a_copy_is_kept(
    zed: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    code, out, err = run(monkeypatch, capsys, "zed", "--write", answer="y")

    (backup,) = zed.parent.glob("settings.json.*.bak")
    assert code == 0
    assert backup.read_text() == SETTINGS
    assert zed.read_text().startswith('{\n  // mine\n  "ui_font_size": 16,\n  "context_servers": {\n')
    assert f"--- {zed}\n+++ {zed}\n" in out
    assert '+    "nextcloud": {' in out
    assert not [line for line in out.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert f"Write this into {zed}?" in err
    assert f"What was there before is in {backup}." in err


def test_what_a_project_hides_in_its_file_is_shown_and_no_terminal_obeys_it(
    home: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    hidden = '{\n  "mcpServers": {\n    "other": {"command": "sh"} // \x1b[2K\x1b[8m\u202e\n  }\n}\n'
    path = home / "mcp.json"
    path.write_text(hidden)
    # A terminal gets what other outputs are spared.
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    _, out, _ = run(monkeypatch, capsys, "cursor", "--write", "--yes", "--file", str(path))

    assert "<U+001B>[2K<U+001B>[8m<U+202E>" in out
    assert "\x1b" not in out
    assert "\x1b[2K\x1b[8m\u202e" in path.read_text()


@pytest.mark.parametrize("text", ["{}", None])
def test_the_question_names_the_place_to_which_a_link_leads(
    text: str | None, home: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    link, target = home / "mcp.json", home / "elsewhere.json"
    if text is not None:
        target.write_text(text)
    link.symlink_to(target)

    _, _, err = run(monkeypatch, capsys, "cursor", "--write", "--file", str(link), answer="n")

    assert f" {target}?" in err


@pytest.mark.parametrize("answer", ["n", ""])
def test_without_a_yes_nothing_changes(answer: str, zed: Path, monkeypatch: Patch, capsys: Capture) -> None:
    code, _, err = run(monkeypatch, capsys, "zed", "--write", answer=answer)

    assert code != 0
    assert "Nothing was changed." in err
    assert zed.read_text() == SETTINGS
    assert list(zed.parent.iterdir()) == [zed]


def test_without_a_terminal_only_yes_writes(zed: Path, monkeypatch: Patch, capsys: Capture) -> None:
    code, _, err = run(monkeypatch, capsys, "zed", "--write")
    before = zed.read_text()
    agreed, _, _ = run(monkeypatch, capsys, "zed", "--write", "--yes")

    assert code != 0
    assert "nothing was changed: add --yes" in err
    assert before == SETTINGS
    assert agreed == 0
    assert "context_servers" in zed.read_text()


def test_a_second_time_changes_nothing_and_another_server_replaces_the_entry(
    zed: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    run(monkeypatch, capsys, "zed", "--write", "--yes")
    once = zed.read_text()
    _, _, err = run(monkeypatch, capsys, "zed", "--write", "--yes")
    same = zed.read_text()
    run(monkeypatch, capsys, "zed", "--write", "--yes", "--toolsets", "notes")

    assert "says so already; nothing was changed" in err
    assert same == once
    assert zed.read_text().count('"nextcloud": {') == 1
    assert '"--toolsets"' in zed.read_text()
    assert "// mine" in zed.read_text()


def test_a_broken_file_is_refused_in_a_sentence_and_the_entry_is_printed(
    zed: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    zed.write_text('{\n  "theme": oops\n}\n')

    code, out, err = run(monkeypatch, capsys, "zed", "--write", "--yes")

    assert code != 0
    assert f"{zed} was left as it is: line 2 is not JSON. Mend it, or put the text above" in err
    assert "context_servers" in json.loads(out)
    assert zed.read_text() == '{\n  "theme": oops\n}\n'
    assert list(zed.parent.iterdir()) == [zed]


def test_a_file_that_is_not_there_is_made_for_the_user_alone(
    home: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    code, _, err = run(monkeypatch, capsys, "codex", "--write", answer="y")

    path = home / ".codex" / "config.toml"
    assert code == 0
    assert f"Make {path}?" in err
    assert "nextcloud" in tomllib.loads(path.read_text())["mcp_servers"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_another_file_may_be_named(home: Path, monkeypatch: Patch, capsys: Capture) -> None:
    path = home / "project" / ".cursor" / "mcp.json"

    code, _, _ = run(monkeypatch, capsys, "cursor", "--write", "--yes", "--file", str(path))

    assert code == 0
    assert "nextcloud" in json.loads(path.read_text())["mcpServers"]


@pytest.mark.parametrize("option", [["--yes"], ["--file", "mcp.json"]])
def test_what_belongs_to_writing_is_not_ignored_without_it(
    option: list[str], monkeypatch: Patch, capsys: Capture
) -> None:
    code, out, err = run(monkeypatch, capsys, "cursor", *option)

    assert (code != 0, out) == (True, "")
    assert "--yes and --file are for --write: add it, or leave them out." in err


def test_a_file_of_another_kind_is_left_alone(home: Path, monkeypatch: Patch, capsys: Capture) -> None:
    path = home / "notes.txt"
    path.write_text("mine")

    code, _, err = run(monkeypatch, capsys, "cursor", "--write", "--yes", "--file", str(path))

    assert code != 0
    assert "it is of another kind than this client's" in err
    assert path.read_text() == "mine"


def test_a_secret_in_a_file_that_others_can_read_is_pointed_out(
    zed: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    zed.chmod(0o644)
    _, _, shared = run(monkeypatch, capsys, "zed", "--write", "--yes", "--http")
    zed.chmod(0o600)
    _, _, private = run(monkeypatch, capsys, "zed", "--write", "--yes", "--http", "--port", "9000")

    assert "Other users of this computer can read that file" in shared
    assert "Other users" not in private
    assert "9000" in zed.read_text()


@pytest.mark.parametrize("client", ["cursor", "claude-desktop"])
def test_a_server_for_many_people_is_written_without_a_secret_where_there_is_a_file(
    client: str, home: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    for name, value in {
        "MODE": "builtin",
        "NEXTCLOUD_MCP_SERVER_URL": "https://mcp.example.org",
        "NEXTCLOUD_OAUTH_CLIENT_ID": "id",
        "NEXTCLOUD_OAUTH_CLIENT_SECRET": "of-nextcloud",
        "TOKEN_ENCRYPTION_KEYS": "k" * 43,
    }.items():
        monkeypatch.setenv(name, value)

    code, _, err = run(monkeypatch, capsys, client, "--write", "--yes")

    if client == "cursor":
        found = json.loads((home / ".cursor" / "mcp.json").read_text())
        assert (code, found["mcpServers"]["nextcloud"]) == (0, {"url": "https://mcp.example.org/mcp"})
    else:
        assert code != 0
        assert "keeps connectors with the user's account: add it there" in err


def test_a_client_without_a_file_gets_its_text_and_a_sentence(monkeypatch: Patch, capsys: Capture) -> None:
    code, out, err = run(monkeypatch, capsys, "open-webui", "--write", "--yes", "--http")

    assert code != 0
    assert out.startswith("URL: http://127.0.0.1:8765/mcp")
    assert "keeps it on its own pages" in err


@pytest.fixture
def claude(home: Path, monkeypatch: Patch) -> Path:
    """Put a program in the place of Claude Code's, which notes how it was called."""
    program, calls = home / "bin" / "claude", home / "calls"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nprintf "%s|" "$@" >> {calls}\necho >> {calls}\ncat {home}/says\nexit $(cat {home}/code)\n'
    )
    program.chmod(0o755)
    (home / "says").write_text("Added stdio MCP server nextcloud")
    (home / "code").write_text("0")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return calls


@pytest.mark.process
def test_claude_code_is_told_by_its_own_command(claude: Path, monkeypatch: Patch, capsys: Capture) -> None:
    code, out, err = run(monkeypatch, capsys, "claude-code", "--write", answer="y")

    removed, added = (line.split("|")[:-1] for line in claude.read_text().splitlines())
    assert code == 0
    assert out.startswith("claude mcp remove --scope user nextcloud\nclaude mcp add ")
    assert removed == ["mcp", "remove", "--scope", "user", "nextcloud"]
    assert added[:5] == ["mcp", "add", "--scope", "user", "nextcloud"]
    assert added[-3:] == ["serve", "--nextcloud", CLOUD]
    assert "Run these two commands?" in err
    assert "Added stdio MCP server nextcloud" in err


@pytest.mark.process
def test_claude_code_is_not_run_without_a_yes(claude: Path, monkeypatch: Patch, capsys: Capture) -> None:
    code, _, _ = run(monkeypatch, capsys, "claude-code", "--write", answer="n")

    assert code != 0
    assert not claude.exists()


@pytest.mark.process
def test_that_a_secret_can_be_seen_among_what_runs_is_said_before_the_question(
    claude: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    _, _, with_secret = run(monkeypatch, capsys, "claude-code", "--write", "--http", answer="n")
    _, _, without = run(monkeypatch, capsys, "claude-code", "--write", answer="n")

    said = "other users of this computer can see the secret"
    assert 0 < with_secret.find(said) < with_secret.find("Run these two commands?")
    assert said not in without
    assert not claude.exists()


@pytest.mark.process
def test_what_claude_code_says_against_it_is_shown(claude: Path, monkeypatch: Patch, capsys: Capture) -> None:
    (claude.parent / "code").write_text("1")
    (claude.parent / "says").write_text("Invalid name")

    code, _, err = run(monkeypatch, capsys, "claude-code", "--write", "--yes")

    assert code != 0
    assert "claude refused it: Invalid name" in err


@pytest.mark.process
def test_a_program_that_cannot_be_run_is_named(claude: Path, monkeypatch: Patch, capsys: Capture) -> None:
    program = claude.parent / "bin" / "claude"
    program.write_bytes(b"\x7fELF no program")

    code, _, err = run(monkeypatch, capsys, "claude-code", "--write", "--yes")

    assert code != 0
    assert f"{program} cannot be run: Exec format error" in err


def test_without_claude_code_its_commands_are_printed(
    home: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setenv("PATH", str(home))

    code, out, err = run(monkeypatch, capsys, "claude-code", "--write", "--yes")

    assert code != 0
    assert out.startswith("claude mcp remove")
    assert "There is no command claude here" in err


@pytest.mark.process
def test_the_whole_way_in_a_terminal(zed: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "nextcloud_mcp_server", "config", "zed", "--nextcloud", CLOUD, "--write"]
    os.write(ours, b"y\n")

    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=True, timeout=60)

    os.close(theirs)
    os.close(ours)
    assert "Write this into" in done.stderr
    assert "Written. What was there before is in" in done.stderr
    assert "context_servers" in zed.read_text()
    assert "// mine" in zed.read_text()
