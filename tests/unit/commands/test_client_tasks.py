"""The commands about tasks, and calls as tasks, against the task server in a process of its own."""

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from nextcloud_mcp_server import cli
from nextcloud_mcp_server.commands.mcp_client import questions, task_output

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
FORMS = pytest.mark.parametrize("form", ["core", "extension"])
ASK: dict[str, Any] = {
    "mode": "form",
    "message": "Which?",
    "requestedSchema": {"type": "object", "properties": {"color": {"type": "string"}}},
}


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Write a configuration with a task server of each form, and one that has no tasks."""
    file, program = tmp_path / "settings.toml", str(ROOT / "tests" / "task_server.py")
    parts = [
        f"[mcp_servers.{form}]\ncommand = {json.dumps(sys.executable)}\n"
        f"args = {json.dumps([program, form, str(tmp_path / form)])}\npermissions = {{ allow = ['*'] }}\n"
        for form in ("core", "extension")
    ]
    other = str(ROOT / "tests" / "mcp_test_server.py")
    parts.append(
        f"[mcp_servers.other]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(other)}]\n"
    )
    file.write_text("\n".join(parts), encoding="utf-8")
    return file


def client(settings: Path, *words: str) -> Result:
    return CliRunner().invoke(cli.app, ["client", "--config", str(settings), *words])


def sent(settings: Path, form: str, method: str) -> list[dict[str, Any]]:
    file = settings.parent / form
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [one["params"] for one in map(json.loads, lines) if one.get("method") == method]


@FORMS
def test_a_tool_that_needs_a_task_is_called_as_one(settings: Path, form: str) -> None:
    outcome = client(settings, "call", form, "must")

    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, "All done.\n", "")
    assert len(sent(settings, form, "tasks/get")) == 2


def test_a_tool_that_may_run_as_a_task_does_so_only_by_option(settings: Path) -> None:
    usual = client(settings, "call", "core", "run")
    as_task = client(settings, "call", "core", "run", "--task", "--ttl", "90")

    assert usual.stdout == "At once: {}\n"
    assert as_task.stdout == "All done.\n"
    assert [call.get("task") for call in sent(settings, "core", "tools/call")] == [None, {"ttl": 90000}]


def test_what_cannot_run_as_a_task_is_not_called(settings: Path) -> None:
    plain = client(settings, "call", "core", "plain", "--task")
    other = client(settings, "call", "other", "echo", "message=x", "--task")

    assert (plain.exit_code, plain.stderr) == (2, 'Error: The tool "plain" does not run as a task.\n')
    assert (other.exit_code, other.stderr) == (2, 'Error: The tool "echo" does not run as a task.\n')
    assert not sent(settings, "core", "tools/call")


@FORMS
def test_the_result_of_a_task_is_printed_as_json(settings: Path, form: str) -> None:
    outcome = client(settings, "call", form, "must", "--json")

    assert json.loads(outcome.stdout)["content"] == [{"type": "text", "text": "All done."}]


@FORMS
@pytest.mark.parametrize(
    ("script", "code", "sentence"),
    [
        ({"states": ["failed"], "error": {"code": -32603, "message": "Broken"}}, 3, "MCP error: Broken."),
        (
            {"states": [{"status": "failed", "statusMessage": "out of memory"}], "result": {}},
            3,
            "MCP task error: out of memory",
        ),
        ({"states": ["cancelled"]}, 3, "MCP task error: task was cancelled by server."),
        ({"gone": True}, 3, "MCP task error: the server has no such task (any more): "),
        ({"states": [{"status": "\x1b[31m"}]}, 1, r"MCP task error: the server sent the status \x1b[31m, "),
        ({"states": ["working"]}, 6, "MCP timeout: server="),
    ],
    ids=["error", "failed", "cancelled", "gone", "garbage", "endless"],
)
def test_each_end_of_a_task_is_a_sentence_and_an_exit_code(
    settings: Path, form: str, script: dict[str, Any], code: int, sentence: str
) -> None:
    outcome = client(settings, "call", form, "must", "--arguments", json.dumps(script), "--timeout", "2")

    assert outcome.exit_code == code
    assert outcome.stderr.startswith(f"Error: {sentence}")
    assert outcome.stderr.count("\n") == 1


@FORMS
def test_what_a_task_asks_is_asked_at_the_terminal(
    settings: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(prompt: str) -> str:
        assert f"MCP server {form} asks: Which?" in prompt
        return "red"

    monkeypatch.setattr(questions, "read_terminal_line", read)
    monkeypatch.setattr("nextcloud_mcp_server.commands.mcp_client.session.read_terminal_line", read)
    script = {"states": ["input_required", "completed"], "ask": ASK}
    outcome = client(settings, "call", form, "must", "--arguments", json.dumps(script), "--json")

    answer = json.loads(outcome.stdout)["structuredContent"]["k1"]
    assert answer == {"action": "accept", "content": {"color": "red"}}


@FORMS
def test_a_call_need_not_wait(settings: Path, form: str) -> None:
    text = client(settings, "call", form, "run", "--no-wait")
    found = client(settings, "call", form, "run", "--no-wait", "--json")

    assert text.stdout.splitlines()[:2] == ["Task:    task-1", "Status:  working"]
    task = json.loads(found.stdout)
    assert (task["taskId"], task["status"], task["createdAt"]) == (
        "task-1",
        "working",
        "2026-11-30T10:30:00Z",
    )
    assert not sent(settings, form, "tasks/cancel")


def test_a_user_who_watches_sees_each_change_once(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, said = Terminal(), list[str]()
    monkeypatch.setattr(task_output, "sys", SimpleNamespace(stderr=terminal))
    monkeypatch.setattr(task_output, "say", said.append)
    half = {"status": "working", "statusMessage": "Half\x1b of it"}
    script = {"states": [half, half, half, "completed"]}
    client(settings, "call", "core", "must", "--arguments", json.dumps(script))

    words = [one.partition(" s: ")[2] for one in said]
    assert words == ["working", r"working Half\x1b of it", "completed"]


def test_a_server_without_tasks_says_so(settings: Path) -> None:
    for words in (
        ("list", "other"),
        ("get", "other", "x"),
        ("result", "other", "x"),
        ("cancel", "other", "x"),
    ):
        outcome = client(settings, "tasks", *words)
        assert outcome.exit_code == 1
        assert outcome.stderr.startswith('Error: The server "other" has no ')


def test_there_is_a_list_only_where_the_version_has_one(settings: Path) -> None:
    core = client(settings, "tasks", "list", "core")
    as_json = client(settings, "tasks", "list", "core", "--json")
    extension = client(settings, "tasks", "list", "extension")

    # A server over stdio begins anew with each command, so it has none.
    assert (core.exit_code, core.stdout, core.stderr) == (0, "", 'The server "core" has no tasks now.\n')
    assert json.loads(as_json.stdout) == []
    assert extension.exit_code == 1
    assert extension.stderr == "Error: MCP 2026-07-28 has no list of tasks.\n"


@FORMS
def test_tasks_are_looked_at_and_cancelled(settings: Path, form: str) -> None:
    text = settings.read_text(encoding="utf-8")
    log = settings.parent / form
    settings.write_text(text.replace(f'{log}"]', f'{log}", "t-1"]'), encoding="utf-8")

    got = client(settings, "tasks", "get", form, "t-1")
    as_json = client(settings, "tasks", "get", form, "t-1", "--json")
    waited = client(settings, "tasks", "result", form, "t-1")
    stopped = client(settings, "tasks", "result", form, "t-1", "--timeout", "0.1")
    cancelled = client(settings, "tasks", "cancel", form, "t-1")
    unknown = client(settings, "tasks", "get", form, "t-9")

    assert got.stdout.splitlines()[:2] == ["Task:    t-1", "Status:  working"]
    assert json.loads(as_json.stdout)["taskId"] == "t-1"
    assert (waited.exit_code, waited.stdout) == (0, "All done.\n")
    assert stopped.exit_code in (0, 6)
    assert cancelled.exit_code == 0
    assert ("Status:  cancelled" in cancelled.stdout) == (form == "core")
    assert len(sent(settings, form, "tasks/cancel")) == 1
    assert (unknown.exit_code, unknown.stderr.startswith("Error: MCP task error: ")) == (3, True)


def test_a_list_of_tasks_is_a_table(settings: Path) -> None:
    log, text = settings.parent / "core", settings.read_text(encoding="utf-8")
    settings.write_text(text.replace(f'{log}"]', f'{log}", "t-1", "t-2"]'), encoding="utf-8")

    outcome = client(settings, "tasks", "list", "core")

    assert [line.split()[:3] for line in outcome.stdout.splitlines()] == [
        ["ID", "STATUS", "CREATED"],
        ["t-1", "working", "2026-11-30T10:30:00Z"],
        ["t-2", "working", "2026-11-30T10:30:00Z"],
    ]


def test_tools_that_are_off_have_no_tasks(settings: Path) -> None:
    text = settings.read_text(encoding="utf-8").replace("permissions", "tools_enabled = false\npermissions")
    settings.write_text(text, encoding="utf-8")

    outcome = client(settings, "tasks", "list", "core")

    assert (outcome.exit_code, "tools_enabled" in outcome.stderr) == (4, True)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process")
@FORMS
def test_an_interrupted_call_cancels_its_task(settings: Path, form: str) -> None:
    words = [
        "client",
        "--config",
        str(settings),
        "call",
        form,
        "must",
        "--arguments",
        '{"states": ["working"]}',
    ]
    command = [sys.executable, "-m", "nextcloud_mcp_server", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        ends_at = time.monotonic() + 60
        while not sent(settings, form, "tasks/get") and time.monotonic() < ends_at:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert process.returncode == 130
    assert [one["taskId"] for one in sent(settings, form, "tasks/cancel")] == ["task-1"]
