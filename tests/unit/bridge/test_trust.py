"""The user's answers about files of projects hold for one content, and are believed from a file of the user's alone."""

import json
import sys
from pathlib import Path

import pytest

from nextcloud_mcp_server.bridge.configuration_files import FileContent, Paths
from nextcloud_mcp_server.bridge.trust import Approvals, is_of_project, never_asked, unapproved
from nextcloud_mcp_server.errors import ConfigurationError


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "data" / "approved.json"


def test_an_answer_holds_for_one_content_of_one_file(store: Path, tmp_path: Path) -> None:
    approvals, file = Approvals(store), tmp_path / "mcp.toml"

    before = approvals.answer(file, "a")
    approvals.remember(file, "a", approved=True)
    approvals.remember(tmp_path / "other.toml", "b", approved=False)

    again = Approvals(store)
    assert before is None
    assert again.answer(file, "a") is True
    assert again.answer(file, "b") is None
    assert again.answer(tmp_path / "other.toml", "b") is False
    assert never_asked(file, "a") is None


def test_an_answer_can_be_taken_back(store: Path, tmp_path: Path) -> None:
    approvals, file = Approvals(store), tmp_path / "mcp.toml"
    approvals.remember(file, "a", approved=True)

    assert [approvals.forget(file), approvals.forget(file)] == [True, False]
    assert approvals.answer(file, "a") is None


def test_a_file_behind_a_link_is_the_file_that_it_leads_to(store: Path, tmp_path: Path) -> None:
    file, link = tmp_path / "mcp.toml", tmp_path / "link.toml"
    file.write_text("", encoding="utf-8")
    link.symlink_to(file)
    approvals = Approvals(store)

    approvals.remember(link, "a", approved=True)

    assert approvals.answer(file, "a") is True


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"files": 1}', '{"files": {"/mcp.toml": true}}', "[" * 100_000, "\xff"],
)
def test_a_damaged_file_approves_nothing(store: Path, content: str) -> None:
    store.parent.mkdir()
    store.write_text(content, encoding="latin-1")

    assert Approvals(store).answer(Path("/mcp.toml"), "a") is None


def test_an_answer_that_is_no_truth_value_approves_nothing(store: Path) -> None:
    store.parent.mkdir()
    text = json.dumps({"files": {"/mcp.toml": {"sha256": "a", "approved": "yes"}}})
    store.write_text(text, encoding="utf-8")

    assert Approvals(store).answer(Path("/mcp.toml"), "a") is False


@pytest.mark.skipif(sys.platform == "win32", reason="A user's profile is private there")
def test_a_file_that_others_could_have_written_or_laid_there_approves_nothing(
    store: Path, tmp_path: Path
) -> None:
    approvals, file = Approvals(store), tmp_path / "mcp.toml"
    approvals.remember(file, "a", approved=True)
    private = store.stat().st_mode & 0o777

    store.chmod(0o620)
    writable = approvals.answer(file, "a")
    store.chmod(0o600)
    store.rename(tmp_path / "elsewhere.json")
    store.symlink_to(tmp_path / "elsewhere.json")
    linked = approvals.answer(file, "a")

    assert private == 0o600
    assert (writable, linked) == (None, None)


def test_an_answer_that_cannot_be_kept_is_one_sentence(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")

    with pytest.raises(ConfigurationError, match=r"cannot be written: .+\.$"):
        Approvals(blocked / "approved.json").remember(tmp_path / "x", "a", approved=True)


def test_a_write_that_fails_leaves_what_was_there(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    approvals = Approvals(store)
    approvals.remember(Path("/a"), "a", approved=True)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(ConfigurationError, match="No space left"):
            approvals.remember(Path("/a"), "b", approved=True)

    assert approvals.answer(Path("/a"), "a") is True
    assert [path.name for path in store.parent.iterdir()] == [store.name]


def test_what_comes_with_the_folder_is_the_projects(tmp_path: Path) -> None:
    project, user = tmp_path / "home", tmp_path / "home" / ".config" / "ours"
    paths = Paths(project, user)

    assert is_of_project(project / "mcp.toml", paths)
    assert is_of_project(project / ".nextcloud-mcp-server" / "settings.toml", paths)
    assert not is_of_project(user / "settings.toml", paths)
    assert not is_of_project(project / "mcp.toml", Paths(project, user, (project / "mcp.toml",)))


@pytest.mark.parametrize(
    ("table", "shown"),
    [
        ({"command": "npx", "args": ["-y", "x"], "env": {"A": "secret"}}, "npx -y x (sets A)"),
        ({"transport": {"type": "stdio", "executable": "run", "args": [1]}}, "run 1"),
        ({"type": "http", "url": "https://a.example/\x1b[2J"}, r"https://a.example/\x1b[2J"),
        ({"command": "x" * 1500}, "x" * 1000 + "… (500 more characters)"),
        ("text", "?"),
    ],
)
def test_what_a_server_would_start_is_shown_as_the_file_has_it(table: object, shown: str) -> None:
    content = FileContent(Path("/p/mcp.toml"), [("one", table)])

    assert unapproved(content, Path("/p"), is_declined=False).servers == (("one", shown),)
