"""The commands of `client` against the small server in a process of its own."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from nextcloud_mcp_server import cli
from nextcloud_mcp_server.bridge.configuration import Configuration
from nextcloud_mcp_server.commands.mcp_client import completion, questions
from nextcloud_mcp_server.commands.mcp_client.session import Choice, run
from nextcloud_mcp_server.errors import ElicitationFailed

pytestmark = pytest.mark.process

PROGRAM = Path(__file__).parents[2] / "mcp_test_server.py"


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Write a configuration with the small server, one that fails, and one that is off."""
    file = tmp_path / "settings.toml"
    command = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(PROGRAM))}]"
    file.write_text(
        f"""
[mcp_servers.test]
{command}
[mcp_servers.test.permissions]
allow = ["echo", "fail", "weather", "count", "escape", "book", "page", "exit"]
deny = ["environment"]
[mcp_servers.other]
{command}
disabled = true
""",
        encoding="utf-8",
    )
    return file


def client(settings: Path, *words: str, env: dict[str, str] | None = None) -> Result:
    """Run a command of `client`."""
    return CliRunner().invoke(cli.app, ["client", "--config", str(settings), *words], env=env)


def add(settings: Path, text: str) -> None:
    settings.write_text(settings.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_list_shows_the_state_of_each_server_and_skips_what_fails(settings: Path) -> None:
    add(settings, '[mcp_servers.broken]\ncommand = "no-such-program"\n[mcp_servers.typo]\ncomand = "x"\n')

    outcome = client(settings, "list")

    assert outcome.exit_code == 1
    lines = [" ".join(line.split()) for line in outcome.stdout.splitlines()]
    assert lines[1] == "● test stdio Connected 12 2025-11-25 test-server 1"
    assert lines[2] == "○ other stdio Disabled"
    assert lines[3].startswith(
        '○ broken stdio Failed MCP transport error: the server "broken" cannot be started'
    )
    assert "left out" in outcome.stderr
    assert 'server "typo": Unknown key "comand"; did you mean "command"?' in outcome.stderr


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("tools",)])
def test_a_file_with_faults_alone_is_wrong_input(tmp_path: Path, words: tuple[str, ...]) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[mcp_servers.typo]\ncomand = "x"\n', encoding="utf-8")

    outcome = client(file, *words)

    assert outcome.exit_code == 2
    assert outcome.stderr.count("\n") == 1
    assert 'server "typo": Unknown key "comand"' in outcome.stderr


def test_list_as_json_is_for_programs(settings: Path) -> None:
    outcome = client(settings, "list", "--json")

    test, other = json.loads(outcome.stdout)
    assert outcome.exit_code == 0
    assert (test["id"], test["state"], test["toolCount"], test["protocolVersion"]) == (
        "test",
        "Connected",
        12,
        "2025-11-25",
    )
    assert other == {"id": "other", "transport": "stdio", "state": "Disabled"}


def test_list_connects_no_server_when_it_should_not(settings: Path) -> None:
    offline = client(settings, "list", "--offline")
    by_variable = client(settings, "list", env={"NEXTCLOUD_MCP_CLIENT_AUTO_CONNECT": "no"})

    assert "Disconnected" in offline.stdout
    assert by_variable.stdout == offline.stdout


def test_all_servers_can_be_off(settings: Path) -> None:
    by_switch = client(settings, "--no-mcp", "list")
    by_variable = client(settings, "list", env={"NEXTCLOUD_MCP_CLIENT_NO_MCP": "1"})
    call = client(settings, "--no-mcp", "ping", "test")

    assert by_switch.stderr == by_variable.stderr == "All servers are off.\n"
    assert call.exit_code == 2


def test_tools_are_listed_with_their_support_of_tasks(settings: Path) -> None:
    outcome = client(settings, "tools", "test")

    assert [" ".join(line.split()) for line in outcome.stdout.splitlines()[:2]] == [
        "SERVER NAME TASKS DESCRIPTION",
        "test echo Forbidden Echoes input",
    ]
    assert "\x1b" not in outcome.stdout
    assert client(settings, "tools", "-s", "test").stdout == outcome.stdout


def test_tools_of_several_servers_have_names_of_their_own(settings: Path) -> None:
    settings.write_text(settings.read_text(encoding="utf-8").replace("disabled = true", ""), encoding="utf-8")

    outcome = client(settings, "tools", "--json")

    names = [tool["registryName"] for tool in json.loads(outcome.stdout)]
    assert {"test__echo", "other__echo"} <= set(names)


def test_resources_and_templates_are_listed_and_read(settings: Path) -> None:
    listed = client(settings, "resources", "test")
    text = client(settings, "read", "test", "text")
    by_sign = client(settings, "read", "@test:test://text")
    template = client(settings, "read", "test", "repository", "me", "my repo")
    blob = client(settings, "read", "test", "test://blob")

    assert "test://repos/{owner}/{repo}" in listed.stdout
    assert text.stdout == by_sign.stdout == "This is test://text.\n"
    assert template.stdout == "This is test://repos/me/my%20repo.\n"
    assert blob.stdout == "[base64 image/png] iVBORw==\n"


def test_a_resource_is_written_into_a_new_file_only(settings: Path, tmp_path: Path) -> None:
    file = tmp_path / "picture.png"

    first = client(settings, "read", "test", "test://blob", "--output", str(file))
    second = client(settings, "read", "test", "test://text", "--output", str(file))

    assert first.stderr == f"4 bytes are in {file}.\n"
    assert file.read_bytes() == b"\x89PNG"
    assert (second.exit_code, "cannot be written: File exists" in second.stderr) == (2, True)


def test_prompts_are_listed_and_fetched(settings: Path) -> None:
    listed = client(settings, "prompts", "test")
    prompt = client(settings, "prompt", "test", "greet", "who=Ada")

    assert listed.stdout.splitlines()[1].split() == ["greet", "who"]
    assert prompt.stdout == "[user]\nGreet Ada.\n\n[assistant]\nHello.\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["test", "echo", "message=hi"], 0, "hi\n"),
        (["test__echo", "message=a=b"], 0, "a=b\n"),
        (["mcp__test__echo", "message="], 0, "\n"),
        (["test", "echo", "--arguments", '{"message": "whole"}'], 0, "whole\n"),
        (
            ["test", "count", "number=7", 'names=["a"]', "free=text"],
            0,
            '{"number": 7, "names": ["a"], "free": "text"}\n',
        ),
        (["test", "weather"], 0, 'Sunny.\n---\n{\n  "degrees": 21\n}\n'),
        (["test", "escape"], 0, "red \\x1b[31mtext\nnext line\n"),
        (["test", "fail"], 3, "It is broken.\n"),
    ],
)
def test_a_call_prints_its_result_and_exits_with_what_happened(
    settings: Path, words: list[str], code: int, text: str
) -> None:
    outcome = client(settings, "call", *words)

    assert (outcome.exit_code, outcome.stdout) == (code, text)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["call", "test", "environment", "--yes"], 4, 'because of "environment" in deny of this server'),
        (
            ["call", "test", "slow"],
            4,
            "Nobody can be asked here. test/slow: ask, because no rule matches it.",
        ),
        (["call", "test", "nothing", "--yes"], 2, "MCP tool not found: server=test, tool=nothing"),
        (
            ["call", "test", "silent", "--yes", "--timeout", "0.1"],
            6,
            "MCP timeout: server=test, method=tools/call.",
        ),
        (["call", "test", "exit"], 1, "ended with exit code 7: It is all over."),
        (["call", "test", "count", "number=x"], 2, '"number" takes JSON (integer), not this text.'),
        (["call", "test", "echo", "hi"], 2, '"hi" is no argument: write name=value.'),
        (["call", "test", "echo", "--arguments", "[1]"], 2, "must be one JSON object"),
        (["call", "test", "echo", "--arguments", "{"], 2, "cannot be read: it is not JSON."),
        (
            ["call", "test", "echo", "--arguments", "@/no/file"],
            2,
            "cannot be read: No such file or directory.",
        ),
        (["ping", "tset"], 2, 'MCP server not found: tset; did you mean "test"? Configured: test, other.'),
        (["ping", "other"], 1, 'The server "other" is disabled in the configuration.'),
        (["ping", "http://127.0.0.1:1/mcp"], 1, 'the server "remote" could not be reached'),
        (["ping", "https://u:p@host/"], 2, '"url" must not contain a name or password'),
        (["read", "test", "repository", "me"], 2, "takes 2 values (owner, repo), not 1."),
        (["read", "test"], 2, "Name the resource"),
        (["prompt", "test", "greet", "who"], 2, "Write NAME=VALUE"),
    ],
)
def test_each_failure_is_a_sentence_and_an_exit_code(
    settings: Path, words: list[str], code: int, sentence: str
) -> None:
    outcome = client(settings, *words, env={"COLUMNS": "200"})

    assert outcome.exit_code == code
    assert sentence in " ".join(outcome.stderr.split())
    assert outcome.stdout == ""
    assert "Traceback" not in outcome.stderr


def test_ping_prints_milliseconds(settings: Path) -> None:
    assert client(settings, "ping", "test").stdout.startswith("Ping test: ")
    assert "ms" in json.loads(client(settings, "ping", "test", "--json").stdout)


def test_permissions_are_explained(settings: Path) -> None:
    one = client(settings, "permissions", "test", "environment")
    every = client(settings, "permissions", "test", "--json")

    assert one.stdout == 'test/environment: deny, because of "environment" in deny of this server.\n'
    decisions = json.loads(every.stdout)
    assert len(decisions) == 13
    assert decisions[0] == {"subject": "test/echo", "verdict": "allow", "place": "server", "pattern": "echo"}
    assert decisions[-1]["subject"] == "Elicit(test)"


def test_the_doctor_names_what_is_wrong(settings: Path) -> None:
    add(
        settings,
        '[mcp_servers.typo]\ncomand = "x"\n[mcp_servers.far]\ntype = "sse"\nurl = "http://mcp.invalid/sse"\n',
    )

    outcome = client(settings, "doctor")

    assert outcome.exit_code == 1
    lines = outcome.stdout.splitlines()
    assert any(line.startswith("fail  configuration: ") and "did you mean" in line for line in lines)
    assert any(
        line.startswith("ok    test: test-server speaks 2025-11-25 over stdio, lists 12 tools")
        for line in lines
    )
    assert any(line.startswith("warn  far: HTTP+SSE is deprecated") for line in lines)
    assert any(line.startswith("warn  far: Its address is not encrypted") for line in lines)
    assert any(line.startswith("fail  far: MCP transport error") for line in lines)


def test_the_doctor_of_one_server_is_for_programs_too(settings: Path) -> None:
    outcome = client(settings, "doctor", "test", "--json")

    (finding,) = json.loads(outcome.stdout)
    assert (outcome.exit_code, finding["verdict"], finding["topic"]) == (0, "ok", "test")


def test_what_a_server_writes_to_stderr_is_shown_on_demand(settings: Path) -> None:
    quiet = client(settings, "ping", "test")
    loud = client(settings, "--debug", "ping", "test")

    assert quiet.stderr == ""
    assert "  | The test server starts." in loud.stderr


def test_a_long_result_is_cut_at_the_users_limit(settings: Path) -> None:
    outcome = client(
        settings,
        "call",
        "test",
        "echo",
        "message=" + "x" * 50,
        env={"NEXTCLOUD_MCP_CLIENT_MAX_OUTPUT_TOKENS": "5"},
    )

    assert outcome.stdout == "x" * 20 + "\n[30 more characters are left out]\n"


def test_without_a_terminal_a_form_is_cancelled_at_once(settings: Path) -> None:
    outcome = client(settings, "call", "test", "book")

    assert outcome.stdout == '{"action": "cancel"}\n'
    assert "MCP elicitation request received in non-interactive context; cancelling" in outcome.stderr


def test_without_a_terminal_a_page_is_not_opened(settings: Path) -> None:
    outcome = client(settings, "call", "test", "page")

    assert outcome.exit_code == 1
    assert "MCP URL elicitation received in headless context; cancelling" in outcome.stderr


@pytest.mark.parametrize(
    ("words", "printed"),
    [(("read", "test", "test://paid"), "This is test://paid."), (("prompt", "test", "paid"), "Greet None.")],
)
def test_resources_and_prompts_wait_for_a_page_as_calls_do(
    settings: Path, words: tuple[str, ...], printed: str
) -> None:
    alone = client(settings, *words)
    outcome = client(settings, *words, "--yes")

    assert alone.exit_code == 1
    assert "the page that the call needs was not opened" in alone.stderr
    assert outcome.exit_code == 0
    assert printed in outcome.stdout
    assert "https://pay.example/e1" in outcome.stderr


def test_with_yes_a_page_is_shown_and_the_call_repeated_when_the_user_has_finished(settings: Path) -> None:
    outcome = client(settings, "call", "test", "page", "--yes")

    assert (outcome.exit_code, outcome.stdout) == (0, "Paid.\n")
    assert "https://pay.example/e1" in outcome.stderr


def test_at_a_terminal_a_form_is_filled_in_and_checked(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = iter(["Ada", "none", "0", "2", ""])
    asked: list[str] = []

    async def read(prompt: str) -> str | None:
        asked.append(prompt)
        return next(lines)

    monkeypatch.setattr("nextcloud_mcp_server.commands.mcp_client.session.read_terminal_line", read)
    outcome = client(settings, "call", "test", "book")

    assert json.loads(outcome.stdout) == {
        "action": "accept",
        "content": {"name": "Ada", "guests": 2, "vegan": False},
    }
    assert asked[0].startswith("MCP server test asks: Book?")
    assert asked[0].endswith("Your name: ")
    assert "Write a number (integer)." in outcome.stderr
    assert "0 is less than the minimum of 1" in outcome.stderr


@pytest.mark.parametrize(
    ("lines", "code", "shown"),
    [(["n"], 1, "was not opened"), (["y"], 0, "https://pay.example/e1")],
)
def test_at_a_terminal_a_page_is_opened_after_a_yes(
    settings: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], code: int, shown: str
) -> None:
    answers = iter(lines)
    asked: list[str] = []

    async def read(prompt: str) -> str | None:
        asked.append(prompt)
        return next(answers)

    monkeypatch.setattr("nextcloud_mcp_server.commands.mcp_client.session.read_terminal_line", read)
    outcome = client(settings, "call", "test", "page")

    assert outcome.exit_code == code
    assert "Host: pay.example\n  https://pay.example/e1\n" in asked[0]
    assert shown in outcome.stderr


def test_a_call_is_asked_at_a_terminal(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["no", "Yes"])
    asked: list[str] = []

    async def read(prompt: str) -> str | None:
        asked.append(prompt)
        return next(answers)

    monkeypatch.setattr("nextcloud_mcp_server.commands.mcp_client.calling.read_terminal_line", read)
    refused = client(settings, "call", "test", "change")
    allowed = client(settings, "call", "test", "change")

    assert asked[0] == "MCP tool call: test/change with args: {}. Allow? [y/N] "
    assert (refused.exit_code, refused.stderr) == (4, "Error: User rejected MCP tool call: test__change\n")
    assert (allowed.exit_code, allowed.stdout) == (0, "Changed.\n")


def test_questions_that_the_permissions_deny_are_declined(settings: Path) -> None:
    add(settings, '[permissions]\ndeny = ["Elicit(test)"]\n')

    outcome = client(settings, "call", "test", "book")

    assert outcome.stdout == '{"action": "decline"}\n'


def test_a_shell_completes_servers_tools_resources_and_prompts(settings: Path) -> None:
    choice = Choice((settings,))

    assert completion.servers(choice, "t") == ["test"]
    assert completion.tools(choice, "test", "e") == ["echo", "environment", "exit", "escape"]
    assert completion.resources(choice, "test", "test://r") == ["test://repos/{owner}/{repo}"]
    assert completion.prompts(choice, "test", "") == ["greet"]
    assert completion.tools(choice, "nobody", "") == []


def test_the_shell_asks_the_program_for_completions(settings: Path) -> None:
    words = f"nextcloud-mcp-server client --config {settings} ping t"
    environment = {"_NEXTCLOUD_MCP_SERVER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "5"}

    outcome = CliRunner().invoke(cli.app, [], prog_name="nextcloud-mcp-server", env=environment)

    assert outcome.stdout.split() == ["test"]


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "javascript:alert(1)", "https://", "https://x/ y", "https://[x", ""]
)
def test_only_pages_of_the_web_are_shown(url: str) -> None:
    assert not questions._is_page(url)  # pyright: ignore[reportPrivateUsage]


def test_a_task_that_was_interrupted_prints_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """A second Ctrl-C leaves tasks whose exception nobody reads."""

    async def action(configuration: Configuration) -> None:
        del configuration
        logging.getLogger("asyncio").error("Task exception was never retrieved")

    with pytest.raises(typer.Exit):
        run(Choice(no_mcp=True), action)

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("pattern", ["!", "(?=b)", "("])
def test_a_pattern_that_is_unknown_here_is_left_to_the_server(pattern: str) -> None:
    field = {"type": "string", "pattern": pattern}

    assert questions.read_value("a!", field, is_required=True) == "a!"


HOSTILE: dict[str, Any] = {"pattern": "^(a+)+$"}


@pytest.mark.parametrize("field", [HOSTILE, {"allOf": [HOSTILE]}])
def test_a_hostile_pattern_takes_no_time(field: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="does not match"):
        questions.read_value("a" * 40 + "!", field, is_required=True)


def test_a_field_that_refers_to_another_document_is_not_valid() -> None:
    with pytest.raises(ElicitationFailed, match="the form of the server is not valid"):
        questions.read_value("x", {"$ref": "http://127.0.0.1:1/x"}, is_required=True)
