"""What the Dockerfile promises, as far as it can be tried without an engine.

`.ci/wheel` runs what the image installs, with a read-only file system, another account and no home (`.ci/read-only`).
"""

import json
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nextcloud_mcp_server import cli
from nextcloud_mcp_server.settings.names import known_variables

ROOT = Path(__file__).parents[2]
#: One instruction in each line.
LINES = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").splitlines()


def instructions(name: str) -> Iterator[str]:
    return (line.removeprefix(f"{name} ") for line in LINES if line.startswith(f"{name} "))


def last_stage() -> list[str]:
    return LINES[max(number for number, line in enumerate(LINES) if line.startswith("FROM ")) :]


def test_both_stages_stand_on_the_same_slim_image_with_a_python_that_is_tested() -> None:
    images = [image.split()[0] for image in instructions("FROM")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    (image,) = set(images)
    version = re.fullmatch(r"python:(\d\.\d+)-slim", image)

    assert version
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]


def test_the_image_has_what_was_installed_and_neither_sources_nor_tools_nor_secrets() -> None:
    copied = [line.removeprefix("COPY ") for line in last_stage() if line.startswith("COPY ")]
    run = [line.removeprefix("RUN ") for line in last_stage() if line.startswith("RUN ")]
    told = {name for line in instructions("ENV") for name in re.findall(r"(\w+)=", line)}

    assert copied == ["--from=build /opt/server /opt/server"]
    assert re.findall(r"\b(?:apt|pip|curl|wget)\b", " ".join(run)) == []
    assert list(instructions("ARG")) == []
    assert [name for name in told if re.search("SECRET|PASSWORD|KEY|TOKEN", name)] == []
    assert told & set(known_variables()) == {"DATA_DIR"}


def test_everything_runs_as_an_account_that_is_not_root_and_whose_home_is_the_data_folder() -> None:
    after_user = last_stage()[last_stage().index("USER server") + 1 :]

    assert list(instructions("USER")) == ["server"]
    assert [line for line in after_user if line.startswith("RUN ")] == []
    assert "useradd --no-create-home --home-dir /data --uid 10001 server" in " ".join(LINES)
    assert "WORKDIR /data" in after_user


def test_python_writes_no_bytecode_where_nothing_can_be_written() -> None:
    assert any("PYTHONDONTWRITEBYTECODE=1" in line for line in last_stage())
    # pip wrote it while the image was built.
    assert "--no-compile" not in " ".join(LINES)


def test_the_command_is_one_of_the_program() -> None:
    (command,) = instructions("CMD")
    program, *arguments = json.loads(command)

    outcome = CliRunner().invoke(cli.app, [*arguments, "--help"])

    assert program == "nextcloud-mcp-server"
    assert outcome.exit_code == 0
    assert arguments == ["serve", "--transport", "http", "--host", "0.0.0.0"]


@contextmanager
def answering(status: int) -> Generator[tuple[int, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1], asked
        server.shutdown()
        thread.join()


@pytest.mark.process
@pytest.mark.parametrize(("status", "is_well"), [(200, True), (503, False)])
def test_the_health_check_asks_readyz_at_the_port_of_the_settings(status: int, *, is_well: bool) -> None:
    (check,) = instructions("HEALTHCHECK")
    program, *arguments = json.loads(check[check.index("CMD ") + 4 :])

    with answering(status) as (port, asked):
        finished = subprocess.run(
            [sys.executable, *arguments],
            env={"NEXTCLOUD_MCP_PORT": str(port)},
            capture_output=True,
            check=False,
        )

    assert program == "python"
    assert asked == ["/readyz"]
    assert (finished.returncode == 0) == is_well
