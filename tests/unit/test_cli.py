import io
import os
import re
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextcloud_mcp_server import cli
from nextcloud_mcp_server.commands.client_config.snippet import ServerCommand
from nextcloud_mcp_server.commands.config import this_command
from nextcloud_mcp_server.commands.console import OPTIONS, Progress, print_link, program
from nextcloud_mcp_server.commands.serve import claim_port, greeting, mcp_url
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server.modes.personal import bearer_secret
from nextcloud_mcp_server.settings.environment import load
from nextcloud_mcp_server.storage.crypto import new_key

pytestmark = pytest.mark.usefixtures("own_data_dir")

Patch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


REMOVE = "claude mcp remove --scope user nextcloud"
CLOUD = "https://cloud.example.org"


def run(arguments: list[str], monkeypatch: Patch, capsys: Capture) -> tuple[int, str, str]:
    """Run the command line as its console script does."""
    monkeypatch.setattr(sys, "argv", ["nextcloud-mcp-server", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize(
    "command",
    [
        "serve",
        "demo",
        "sandbox",
        "connect",
        "grants list",
        "grants revoke",
        "audit list",
        "audit export",
        "accounts list",
        "accounts release",
        "db upgrade",
        "db current",
        "db backup",
        "db restored",
        "clients list",
        "clients revoke",
        "keys new",
        "keys status",
        "keys rotate",
        "setup nextcloud",
        "config",
        "doctor",
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    outcome = CliRunner().invoke(cli.app, [*command.split(), "--help"])

    assert outcome.exit_code == 0
    assert "Usage" in outcome.output


def test_missing_settings_are_named_at_once_and_exit_with_code_2(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("MODE", "builtin")

    code, out, err = run(["serve"], monkeypatch, capsys)

    assert (code, out) == (2, "")
    first, *others = err.splitlines()
    assert first == "Error: 5 settings are missing for MODE=builtin:"
    assert [line.partition(":")[0].strip() for line in others] == [
        "NEXTCLOUD_HOST",
        "NEXTCLOUD_MCP_SERVER_URL",
        "TOKEN_ENCRYPTION_KEYS",
        "NEXTCLOUD_OAUTH_CLIENT_ID",
        "NEXTCLOUD_OAUTH_CLIENT_SECRET",
    ]


def test_serving_without_a_nextcloud_says_how_to_name_one(monkeypatch: Patch, capsys: Capture) -> None:
    code, _, err = run(["serve"], monkeypatch, capsys)

    assert code == 2
    assert err.startswith("Error: No Nextcloud is set: name yours with --nextcloud https://cloud.example.org")


def test_a_refusal_names_the_variables_that_are_not_read(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("NEXTCLOUD_HOTS", CLOUD)

    code, _, err = run(["serve"], monkeypatch, capsys)

    first, last = err.splitlines()
    assert code == 2
    assert first == "Note: NEXTCLOUD_HOTS is not read: did you mean NEXTCLOUD_HOST?"
    assert last.startswith("Error: No Nextcloud is set")


def test_a_failure_on_the_way_is_one_sentence_and_exit_code_1(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    (tmp_path / "broken.db").write_bytes(b"this is no database, but it is long enough to be read as one" * 20)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'broken.db'}")

    code, _, err = run(["db", "current"], monkeypatch, capsys)

    assert code == 1
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_database_that_is_not_there_yet_has_no_schema(monkeypatch: Patch, capsys: Capture) -> None:
    code, out, _ = run(["db", "current"], monkeypatch, capsys)

    assert code == 0
    assert out == "no schema yet: it is made at first use\n"


def test_a_new_key_goes_to_stdout_alone(monkeypatch: Patch, capsys: Capture) -> None:
    code, out, err = run(["keys", "new"], monkeypatch, capsys)

    assert code == 0
    assert len(out.strip()) == 43
    assert "TOKEN_ENCRYPTION_KEYS" in err
    assert "Keep a copy of the key in another place than the backups of the database" in err


def test_a_client_s_configuration_goes_to_stdout_and_its_place_to_stderr(
    monkeypatch: Patch, capsys: Capture
) -> None:
    code, out, err = run(["config", "claude-code", "--nextcloud", CLOUD], monkeypatch, capsys)

    assert code == 0
    assert out.splitlines()[1].startswith("claude mcp add --scope user nextcloud --env DATA_DIR=")
    assert out.rstrip().endswith(f"serve --nextcloud {CLOUD}")
    assert err.startswith("Run this in a terminal")


def test_a_configuration_says_what_it_leaves_out(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("TOOLSET", "notes")

    code, out, err = run(["config", "codex", "--sandbox", "--nextcloud", CLOUD], monkeypatch, capsys)

    assert (code, CLOUD in out) == (0, False)
    assert err.splitlines()[:2] == [
        "Note: NEXTCLOUD_HOST is not used with --sandbox.",
        "Note: TOOLSET is not read: did you mean TOOLSETS?",
    ]


def test_the_configuration_over_http_holds_the_secret_that_the_server_asks_for(
    monkeypatch: Patch, capsys: Capture
) -> None:
    code, out, err = run(["config", "vscode", "--http", "--port", "9000"], monkeypatch, capsys)

    secret = bearer_secret(load())
    assert code == 0
    assert secret is not None
    assert f"Bearer {secret.get_secret_value()}" in out
    assert "http://127.0.0.1:9000/mcp" in out
    assert "keep it to yourself" in err


def test_the_configuration_over_http_holds_the_toolsets_that_were_chosen(
    monkeypatch: Patch, capsys: Capture
) -> None:
    arguments = ["config", "cursor", "--http", "--toolsets", "notes,calendar"]

    code, out, err = run(arguments, monkeypatch, capsys)

    assert code == 0
    assert '"X-MCP-Toolsets": "notes,calendar"' in out
    assert "as far as the server was started with them" in err


def test_the_secret_file_is_this_person_s_alone() -> None:
    settings = load()

    bearer_secret(settings)

    assert settings.secret_file.stat().st_mode & 0o777 == 0o600


def test_a_given_secret_is_used_and_none_is_made_where_none_is_asked_for() -> None:
    given = bearer_secret(load(nextcloud_mcp_secret="s" * 24))

    assert given is not None
    assert given.get_secret_value() == "s" * 24
    assert bearer_secret(load(no_local_auth=True)) is None


def test_the_command_for_a_client_is_this_installation_by_its_full_path() -> None:
    command = this_command(load(nextcloud_host=CLOUD))

    assert Path(command.command).is_absolute()
    assert Path(command.command).is_file()


@pytest.mark.parametrize(
    ("toolsets", "arguments"), [(None, ()), ("notes,calendar", ("--toolsets", "notes,calendar"))]
)
def test_the_command_for_a_client_starts_the_chosen_tools(
    toolsets: str | None, arguments: tuple[str, ...]
) -> None:
    command = this_command(load(sandbox=True, toolsets=toolsets))

    assert command.arguments[-2:] == (arguments or ("serve", "--sandbox"))


@pytest.mark.parametrize(("version", "arguments"), [("34", ()), ("35", ("--sandbox-version", "35"))])
def test_the_command_for_a_client_names_a_version_of_the_sandbox_that_is_not_the_usual_one(
    version: str, arguments: tuple[str, ...]
) -> None:
    command = this_command(load(sandbox=True, sandbox_version=version))

    assert command.arguments[-2:] == (arguments or ("serve", "--sandbox"))


def test_without_the_console_script_the_interpreter_runs_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.delenv("DATA_DIR")

    command = this_command(load(sandbox=True))

    assert command == ServerCommand(
        command=str(tmp_path / "python"), arguments=("-m", "nextcloud_mcp_server", "serve", "--sandbox")
    )


def test_the_greeting_over_http_says_where_what_and_how_to_connect() -> None:
    text = greeting(load(nextcloud_host=CLOUD, transport="http", port=9000), 9000)

    assert "http://127.0.0.1:9000/mcp" in text
    assert CLOUD in text
    assert "bearer secret" in text
    assert "config claude-code --http --port 9000" in text


def test_the_greeting_names_the_sandbox_and_the_missing_secret() -> None:
    text = greeting(load(sandbox=True, transport="http", no_local_auth=True), 8765)

    assert "sandbox Nextcloud (alice and bob" in text
    assert "No secret is asked for" in text
    assert "config claude-code --http --sandbox (" in text


MANY_PEOPLE = {
    "MODE": "oidc",
    "NEXTCLOUD_HOST": CLOUD,
    "NEXTCLOUD_MCP_SERVER_URL": "https://mcp.example.org",
    "TOKEN_ENCRYPTION_KEYS": "a-key",
    "OIDC_ISSUER": "https://id.example.org",
    "OIDC_CLIENT_ID": "nextcloud-mcp",
    "NEXTCLOUD_OAUTH_CLIENT_ID": "at-nextcloud",
    "NEXTCLOUD_OAUTH_CLIENT_SECRET": "of-nextcloud",
}


@pytest.fixture
def multi_user(own_data_dir: None, monkeypatch: Patch) -> None:
    for name, text in MANY_PEOPLE.items():
        monkeypatch.setenv(name, text)


@pytest.mark.usefixtures("multi_user")
def test_the_greeting_for_many_people_names_the_public_address_and_who_signs_them_in() -> None:
    text = greeting(load(), 8765)

    assert "https://mcp.example.org/mcp" in text
    assert "Users sign in at https://id.example.org." in text
    assert "For the reverse proxy: http://127.0.0.1:8765\n" in text
    assert "secret" not in text


@pytest.mark.usefixtures("multi_user")
def test_where_nextcloud_signs_people_in_the_greeting_names_its_public_address(monkeypatch: Patch) -> None:
    monkeypatch.setenv("MODE", "builtin")
    for name in ("OIDC_ISSUER", "OIDC_CLIENT_ID"):
        monkeypatch.delenv(name)
    inside = {"nextcloud_host": "http://nextcloud", "nextcloud_public_url": CLOUD}

    assert f"Users sign in at {CLOUD}." in greeting(load(**inside), 8765)
    assert f"Users sign in at {CLOUD}." in greeting(load(), 8765)


@pytest.mark.usefixtures("multi_user")
def test_the_greeting_names_no_second_address_where_there_is_no_proxy() -> None:
    assert "proxy" not in greeting(load(nextcloud_mcp_server_url="http://127.0.0.1:8765"), 8765)


@pytest.mark.usefixtures("multi_user")
@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("connect --no-browser", "each user adds https://mcp.example.org/mcp to a chat client"),
        ("grants revoke", "Users end their own at https://mcp.example.org/account."),
    ],
)
def test_what_acts_for_one_person_is_refused_for_many_with_the_way_there(
    command: str, sentence: str, monkeypatch: Patch, capsys: Capture
) -> None:
    code, out, err = run(command.split(), monkeypatch, capsys)

    assert (code, out) == (2, "")
    assert sentence in err


def test_a_list_of_nothing_makes_no_database_and_no_key(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    code, out, err = run(["grants", "list"], monkeypatch, capsys)

    assert (code, out) == (0, "")
    assert err.startswith("Nothing is connected. Connect with:")
    assert not (tmp_path / "data").exists()


@pytest.mark.usefixtures("multi_user")
def test_an_empty_list_of_a_multi_user_server_says_how_users_begin(
    monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setenv("TOKEN_ENCRYPTION_KEYS", new_key())

    code, out, err = run(["grants", "list"], monkeypatch, capsys)

    assert (code, out) == (0, "")
    assert "No user is connected yet. Each user adds https://mcp.example.org/mcp to a chat client" in err


@pytest.mark.usefixtures("multi_user")
@pytest.mark.parametrize(
    ("client", "line"),
    [
        (
            "claude-code",
            f"{REMOVE}\nclaude mcp add --scope user --transport http nextcloud https://mcp.example.org/mcp",
        ),
        ("claude-desktop", "https://mcp.example.org/mcp"),
    ],
)
def test_the_configuration_for_many_people_holds_the_address_and_no_secret(
    client: str, line: str, monkeypatch: Patch, capsys: Capture
) -> None:
    code, out, err = run(["config", client], monkeypatch, capsys)

    assert (code, out) == (0, f"{line}\n")
    assert "opens a browser to sign in" in err


@pytest.mark.usefixtures("multi_user")
def test_setup_for_nextcloud_asks_before_anything_is_sent(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))

    code, out, err = run(["setup", "nextcloud"], monkeypatch, capsys)

    assert (code, out) == (2, "")
    assert "with the redirect URI https://mcp.example.org/oauth/callback/nextcloud" in err
    assert "of-nextcloud" not in err


@pytest.mark.parametrize(
    ("overrides", "option"),
    [({"nextcloud_host": CLOUD}, f"--nextcloud {CLOUD}"), ({"sandbox": True}, "--sandbox")],
)
def test_the_greeting_over_stdio_points_to_the_configuration(
    overrides: dict[str, object], option: str
) -> None:
    text = greeting(load(**overrides), 0)

    assert "stdio" in text
    assert f"config claude-code {option} (" in text


@pytest.mark.parametrize(
    ("started", "found", "expected"),
    [
        (".venv/bin/nextcloud-mcp-server", None, ".venv/bin/nextcloud-mcp-server"),
        (".venv/bin/nextcloud-mcp-server", "/usr/bin/nextcloud-mcp-server", "nextcloud-mcp-server"),
        ("/opt/nextcloud_mcp_server/__main__.py", None, "nextcloud-mcp-server"),
    ],
)
def test_a_command_to_type_is_one_that_the_terminal_finds(
    started: str, found: str | None, expected: str, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(sys, "argv", [started])

    def which(_name: str) -> str | None:
        return found

    monkeypatch.setattr("shutil.which", which)

    assert program() == expected


@pytest.mark.parametrize(
    ("overrides", "url"),
    [
        ({}, "http://127.0.0.1:8765/mcp"),
        ({"host": "0.0.0.0"}, "http://127.0.0.1:8765/mcp"),
        ({"host": "::1"}, "http://[::1]:8765/mcp"),
        ({"nextcloud_mcp_server_url": "https://mcp.example.org/"}, "https://mcp.example.org/mcp"),
    ],
)
def test_clients_are_given_an_address_they_can_call(overrides: dict[str, object], url: str) -> None:
    assert mcp_url(load(**overrides), 8765) == url


def test_a_port_in_use_is_refused_with_the_fix() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigurationError, match="something does already, perhaps this server itself"):
            claim_port("127.0.0.1", port)


def test_port_0_takes_a_free_one() -> None:
    assert claim_port("127.0.0.1", 0) > 0


def test_progress_away_from_a_terminal_is_lines_without_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()

    for text in ("waiting", "waiting", "connected"):
        progress(text)
    progress.close()

    assert capsys.readouterr().err == "waiting\nconnected\n"


def test_progress_at_a_terminal_is_one_line_that_is_written_over(monkeypatch: Patch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress()

    for text in ("waiting", "connected"):
        progress(text)
    progress.close()

    assert terminal.getvalue().count("\n") == 1
    assert "waiting" in terminal.getvalue()


def test_progress_that_never_began_ends_without_a_line(monkeypatch: Patch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    Progress().close()

    assert terminal.getvalue() == ""


def test_a_client_that_was_killed_is_not_worth_a_trace(monkeypatch: Patch, capsys: Capture) -> None:
    def left() -> None:
        raise ExceptionGroup("outer", [ExceptionGroup("inner", [BrokenPipeError()])])

    monkeypatch.setattr(cli, "app", left)

    code, out, err = run([], monkeypatch, capsys)

    assert (code, out, err) == (1, "", "")


def test_an_unexpected_error_keeps_its_trace(monkeypatch: Patch) -> None:
    def broken() -> None:
        raise ExceptionGroup("outer", [BrokenPipeError(), ValueError("x")])

    monkeypatch.setattr(cli, "app", broken)
    monkeypatch.setattr(sys, "argv", ["nextcloud-mcp-server"])

    with pytest.raises(ExceptionGroup):
        cli.main()


def test_the_version_is_printed(monkeypatch: Patch, capsys: Capture) -> None:
    code, out, _ = run(["--version"], monkeypatch, capsys)

    assert (code, out) == (0, f"nextcloud-mcp-server {version('nextcloud-mcp-server')}\n")


def test_the_help_lists_every_command_in_the_order_in_which_users_meet_them() -> None:
    help_text = CliRunner().invoke(cli.app, ["--help"], env={"COLUMNS": "200"}).output

    listed = re.findall(r"^│ ([a-z]+) {2,}", help_text.partition("Commands")[2], flags=re.MULTILINE)
    assert listed[:5] == ["demo", "connect", "config", "serve", "doctor"]
    assert listed[-2:] == ["client", "bridge"]
    assert len(listed) == len(cli.app.registered_commands) + len(cli.app.registered_groups)


@pytest.mark.parametrize("command", [["demo", "--mode", "x"], ["serve", "--transport", "x"]])
def test_a_wrong_choice_is_told_without_the_words_of_a_library(command: list[str]) -> None:
    outcome = CliRunner().invoke(cli.app, command, env={"COLUMNS": "200"})

    assert outcome.exit_code == 2
    assert "'x' is not one of" in outcome.output
    assert "Value error" not in outcome.output


def test_the_help_names_the_variable_of_an_option(monkeypatch: Patch, capsys: Capture) -> None:
    _, out, _ = run(["serve", "--help"], monkeypatch, capsys)

    assert "NEXTCLOUD_HOST" in out


def test_a_tool_to_leave_out_that_does_not_exist_is_refused_by_the_doctor_too(
    monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setenv("EXCLUDE_TOOLS", "nc_notes_delet_note")

    code, _, err = run(["doctor", "--nextcloud", CLOUD], monkeypatch, capsys)

    assert code == 2
    assert "did you mean 'nc_notes_delete_note'?" in err


@pytest.mark.process
def test_the_doctor_warns_of_an_old_name_of_a_tool_to_leave_out(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("EXCLUDE_TOOLS", "nc_deck_list_boards")

    _, out, _ = run(["doctor"], monkeypatch, capsys)

    assert "warn  settings: EXCLUDE_TOOLS names nc_deck_list_boards, an old name of nc_deck_get_board" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serve", "--nextcloud", "ftp://x"], "Error: --nextcloud is not a web address"),
        (["serve", "--nextcloud=ftp://x"], "Error: --nextcloud is not a web address"),
        (
            ["serve", "--nextcloud", CLOUD, "--toolsets", "note"],
            "Error: Unknown toolset 'note' in --toolsets; did you mean 'notes'?",
        ),
        (["connect", "--nextcloud", "http://127.0.0.1:9"], "Error: Nothing listens at --nextcloud."),
    ],
)
def test_an_error_names_the_option_that_set_the_value(
    arguments: list[str], sentence: str, monkeypatch: Patch, capsys: Capture
) -> None:
    _, _, err = run(arguments, monkeypatch, capsys)

    # Above it are log lines of the attempts to connect.
    error = err.splitlines()[-1]
    assert error.startswith(sentence)
    assert not any(variable in error for variable in OPTIONS)


def test_an_error_names_the_variable_that_set_the_value(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("NEXTCLOUD_HOST", "ftp://x")

    _, _, err = run(["serve"], monkeypatch, capsys)

    assert err.startswith("Error: NEXTCLOUD_HOST is not a web address")


def test_the_help_of_each_option_names_its_variable() -> None:
    help_texts = [
        CliRunner().invoke(cli.app, [*command, "--help"], env={"COLUMNS": "200"}).output
        for command in (["serve"], ["setup", "nextcloud"])
    ]
    found = re.findall(r"(--[a-z-]+) .*\(or ([A-Z_]+)\)", "\n".join(help_texts))
    documented = {variable: option for option, variable in found}

    assert documented == OPTIONS


@pytest.mark.process
def test_the_doctor_checks_a_set_up_with_the_sandbox(monkeypatch: Patch, capsys: Capture) -> None:
    _, out, _ = run(["doctor", "--sandbox"], monkeypatch, capsys)

    assert re.search(r"ok    Nextcloud: http://127\.0\.0\.1:\d+ is a Nextcloud 34\.", out)
    assert "fail  " not in out
    assert "sandbox is made at first use" in out


def test_the_grants_of_a_sandbox_are_its_own(monkeypatch: Patch, capsys: Capture) -> None:
    _, _, err = run(["grants", "list", "--sandbox"], monkeypatch, capsys)
    _, _, ended = run(["grants", "revoke", "--sandbox"], monkeypatch, capsys)

    assert err == "Nothing is connected. A server with --sandbox asks for it when a client calls a tool.\n"
    assert ended == "Nothing is connected.\n"


def test_an_interruption_exits_quietly(monkeypatch: Patch, capsys: Capture) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)

    code, out, err = run([], monkeypatch, capsys)

    assert (code, out, err) == (130, "", "")


def test_a_link_is_printed_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_link("https://cloud.example.org/x")

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "https://cloud.example.org/x" in captured.err


@pytest.mark.process
def test_the_package_runs_as_a_module() -> None:
    outcome = subprocess.run(  # our own interpreter
        [sys.executable, "-m", "nextcloud_mcp_server", "keys", "new"],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ},
    )

    assert len(outcome.stdout.strip()) == 43
