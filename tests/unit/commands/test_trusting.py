"""A project's file is asked about once at a terminal; without one it is refused, and a sentence says what to do."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nextcloud_mcp_server import cli
from nextcloud_mcp_server.commands.mcp_client import trusting
from nextcloud_mcp_server.commands.mcp_client.bridging import Wishes, found_servers
from nextcloud_mcp_server.errors import CallNotAllowed

pytestmark = pytest.mark.process


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder whose file starts a program that leaves a mark."""
    folder = tmp_path / "project"
    folder.mkdir()
    write(folder, "started")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return folder


def write(folder: Path, mark: str) -> None:
    program = f"open({str(folder / mark)!r}, 'w').close()"
    text = (
        f"[server.one]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(['-S', '-c', program])}\n"
    )
    (folder / "mcp.toml").write_text(text, encoding="utf-8")


def client(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli.app, ["client", *words], input=typed)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trusting, "can_ask", lambda: True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ping", "one"], 4),
        (["call", "one", "x", "--yes"], 4),
        (["tools"], 0),
        (["list"], 0),
        (["doctor"], 1),
        (["trust"], 4),
    ],
)
def test_without_a_terminal_nothing_is_started_and_a_sentence_says_how(
    project: Path, words: list[str], code: int
) -> None:
    outcome = client(*words)

    assert outcome.exit_code == code
    assert "client trust" in outcome.stderr + outcome.stdout
    assert "Traceback" not in outcome.stderr
    assert not (project / "started").exists()


@pytest.mark.parametrize("words", [("tools", "one"), ("call", "one", "x"), ("doctor", "one"), ("list",)])
def test_that_a_file_is_not_approved_is_said_once(project: Path, words: tuple[str, ...]) -> None:
    del project
    outcome = client(*words)

    assert (outcome.stderr + outcome.stdout).count("is not approved yet") == 1
    assert "No server is configured" not in outcome.stderr


def test_a_bridge_never_asks(project: Path, terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    del terminal
    for targets in ([], ["one"]):
        with pytest.raises(CallNotAllowed, match="does not count; the note above says why") as caught:
            found_servers(targets, Wishes())
        said = capsys.readouterr().err + str(caught.value)
        assert said.count("is not approved yet") == 1

    assert not (project / "started").exists()


def test_a_terminal_is_asked_once_for_each_content(project: Path, terminal: None) -> None:
    del terminal
    first = client("ping", "one", typed="y\n")
    second = client("ping", "one", typed="")
    started = (project / "started").exists()
    write(project, "changed")
    changed = client("ping", "one", typed="n\n")
    declined = client("ping", "one", typed="y\n")

    assert started
    assert "mcp.toml came with this project, and names:\n  one: " in first.stderr
    assert "Do you trust it? [y/N]" in first.stderr
    assert "trust" not in second.stderr
    assert (changed.exit_code, declined.exit_code) == (4, 4)
    assert "Do you trust it?" in changed.stderr
    assert "Do you trust it?" not in declined.stderr
    assert "was declined" in declined.stderr
    assert not (project / "changed").exists()


def test_no_answer_is_not_remembered(project: Path, terminal: None) -> None:
    del terminal
    outcomes = [client("ping", "one", typed="") for _ in range(2)]

    assert all("Do you trust it?" in outcome.stderr for outcome in outcomes)
    assert not (project / "started").exists()


def test_a_file_is_approved_without_a_terminal_and_the_approval_taken_back(project: Path) -> None:
    approved = client("trust", "--yes")
    again = client("trust")
    ping = client("ping", "one")
    forgotten = client("trust", "--forget")
    nothing = client("trust", "--forget")
    refused = client("ping", "one")

    assert approved.stdout == f"Approved as it is now: {project / 'mcp.toml'}\n"
    assert f"one: {sys.executable} -S -c open(" in approved.stderr
    assert again.stdout == "No file of this folder waits for your approval.\n"
    # The program speaks no MCP, but it was started.
    assert ping.exit_code == 1
    assert (project / "started").exists()
    assert forgotten.stdout == f"Asked about again: {project / 'mcp.toml'}\n"
    assert nothing.stdout == "You have said nothing about a file of this folder.\n"
    assert refused.exit_code == 4


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 4), ("", 4)])
def test_the_command_asks_at_a_terminal_even_after_a_no(
    project: Path, terminal: None, typed: str, code: int
) -> None:
    del terminal
    client("list", "--offline", typed="n\n")

    outcome = client("trust", typed=typed)

    assert outcome.exit_code == code
    assert ("Approved" in outcome.stdout) is (code == 0)
    assert not (project / "started").exists()


def test_many_servers_are_not_all_shown(project: Path) -> None:
    text = "\n".join(f'[server.s{number}]\ncommand = "x"' for number in range(25))
    (project / "mcp.toml").write_text(text, encoding="utf-8")

    outcome = client("trust", "--yes")

    assert "  s19: x\n  and 5 more\n" in outcome.stderr


def test_a_file_that_only_allows_calls_waits_for_approval_too(project: Path) -> None:
    (project / "mcp.toml").write_text('[permissions]\nallow = ["*"]\n', encoding="utf-8")

    outcome = client("trust", "--yes")

    assert "  calls that it allows without a question: *\n" in outcome.stderr


def test_what_changes_the_meaning_of_a_server_is_shown(project: Path) -> None:
    """A variable such as NODE_OPTIONS starts another program, spaces hide one, and `allow` is for all servers."""
    (project / "mcp.toml").write_text(
        f"""
[server.one]
command = "npx"
args = ["-y", "tea{" " * 2000}", "; touch x"]
cwd = "bin"
env = {{ NODE_OPTIONS = "--require ./x.js", A = "${{AWS_KEY:-none}} ${{PROJECT_DIR}} $${{NOT}}" }}
[server.two]
type = "http"
url = "https://example.org/${{TOKEN}}"
headers = {{ X-One = "${{OTHER_TOKEN}}" }}
[server.three]
command = "sh"
args = ["-c", "{"x" * 2000}"]
[permissions]
allow = ["*", "{"y" * 1001}"]
""",
        encoding="utf-8",
    )

    shown = client("trust", "--yes").stderr

    assert "  one: npx -y tea ; touch x (in bin; sets NODE_OPTIONS, A; reads AWS_KEY)\n" in shown
    assert "  two: https://example.org/${TOKEN} (sends X-One; reads OTHER_TOKEN, TOKEN)\n" in shown
    assert f"  three: sh -c {'x' * 994}… (1006 more characters)\n" in shown
    assert f"  calls that it allows without a question: *, {'y' * 1000}… (1 more characters)\n" in shown


def test_many_rules_are_not_all_shown(project: Path) -> None:
    rules = ", ".join(f'"r{number}"' for number in range(23))
    (project / "mcp.toml").write_text(f"[permissions]\nallow = [{rules}]\n", encoding="utf-8")

    assert ", r19\n  and 3 more\n" in client("trust", "--yes").stderr


def test_a_file_that_is_named_is_not_asked_about(project: Path) -> None:
    outcome = client("--config", "mcp.toml", "ping", "one")

    assert "trust" not in outcome.stderr
    assert (project / "started").exists()
