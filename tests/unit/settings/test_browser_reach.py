import os
from pathlib import Path

import pytest

from nextcloud_mcp_server.settings.browser_reach import why_unreachable


def process(root: Path, pid: int, name: str, parent: int) -> None:
    """Write a process as proc(5) shows it."""
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(
        f"{pid} ({name}) S {parent} {pid} {pid} 0 -1 4194560 0 0\n", encoding="utf-8"
    )


def test_a_computer_with_a_desktop_is_in_reach(tmp_path: Path) -> None:
    process(tmp_path, os.getpid(), "python", 12)
    process(tmp_path, 12, "Claude) (x sshd", 1)
    process(tmp_path, 1, "systemd", 0)

    assert why_unreachable({"HOME": "/home/alice", "SSH_TTY": ""}, root=tmp_path) is None
    assert why_unreachable({}, root=tmp_path / "no-proc") is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("SSH_CONNECTION", "over SSH"),
        ("SSH_TTY", "over SSH"),
        ("CODESPACES", "a codespace"),
        ("REMOTE_CONTAINERS", "a container"),
        ("KUBERNETES_SERVICE_HOST", "a container"),
    ],
)
def test_a_variable_tells_where_the_server_runs(tmp_path: Path, name: str, reason: str) -> None:
    found = why_unreachable({name: "set"}, root=tmp_path)

    assert found is not None
    assert reason in found


@pytest.mark.parametrize("name", [".dockerenv", "run/.containerenv"])
def test_a_container_is_known_by_its_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / name).touch()

    assert why_unreachable({}, root=tmp_path) == "this server runs in a container"


def test_ssh_is_found_among_the_programs_that_started_this_one(tmp_path: Path) -> None:
    # Clients start their servers with few variables.
    process(tmp_path, os.getpid(), "python", 30)
    process(tmp_path, 30, "claude", 20)
    process(tmp_path, 20, "sshd-session", 1)

    assert why_unreachable({}, root=tmp_path) == "this server was started over SSH"


def test_programs_that_name_each_other_as_parents_are_left_after_a_while(tmp_path: Path) -> None:
    process(tmp_path, os.getpid(), "python", 30)
    process(tmp_path, 30, "claude", os.getpid())

    assert why_unreachable({}, root=tmp_path) is None
