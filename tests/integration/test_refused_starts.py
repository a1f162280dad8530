"""`serve` as a process, where it cannot work: one sentence and an exit code, nothing that looks like a start."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import child_environment, load
from nextcloud_mcp_server.storage.crypto import new_key

Prepare = Callable[[Path], dict[str, str]]

pytestmark = pytest.mark.process


def nothing(_: Path) -> dict[str, str]:
    return {}


def junk(folder: Path) -> dict[str, str]:
    (folder / "state.db").write_bytes(b"no database" * 1000)
    return {}


def other_keys(folder: Path) -> dict[str, str]:
    async def make() -> None:
        settings = load(nextcloud_host="http://127.0.0.1:9", data_dir=folder, token_encryption_keys=new_key())
        async with open_database(settings):
            pass

    anyio.run(make)
    return {"TOKEN_ENCRYPTION_KEYS": new_key()}


def a_file_as_folder(folder: Path) -> dict[str, str]:
    (folder / "file").touch()
    return {"DATA_DIR": str(folder / "file")}


def no_file_may_grow() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


@pytest.mark.parametrize(
    ("prepare", "transport", "limit", "code", "sentence"),
    [
        (junk, "http", None, 1, "cannot be read as a database"),
        (junk, "stdio", None, 1, "cannot be read as a database"),
        (other_keys, "stdio", None, 2, "was sealed with another key"),
        (a_file_as_folder, "stdio", None, 2, "cannot be written"),
        (nothing, "http", no_file_may_grow, 2, "cannot be written (File too large)"),
    ],
    ids=["junk, http", "junk, stdio", "keys", "folder", "full disk"],
)
def test_a_start_that_cannot_work_is_refused_in_one_sentence(
    tmp_path: Path,
    *,
    prepare: Prepare,
    transport: str,
    limit: Callable[[], None] | None,
    code: int,
    sentence: str,
) -> None:
    variables = {"DATA_DIR": str(tmp_path)} | prepare(tmp_path)
    command = [sys.executable, "-m", "nextcloud_mcp_server", "serve", "--transport", transport, "--port", "0"]

    done = subprocess.run(
        [*command, "--nextcloud", "http://127.0.0.1:9"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        # Without byte code, which the limit on the size of files would cut off.
        env=child_environment(variables) | {"PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]},
        preexec_fn=limit,
    )

    assert done.returncode == code
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert sentence in line


@pytest.mark.parametrize(
    ("variables", "events"),
    [
        ({"DATA_DIR": "/dev/null/x"}, ["The data folder /dev/null/x cannot be written"]),
        ({"HOLD_SECONDS": "soon"}, ["Invalid HOLD_SECONDS"]),
        (
            {"MODE": "builtin"},
            ["4 settings are missing for MODE=builtin: NEXTCLOUD_MCP_SERVER_URL: set the address"],
        ),
        ({"NEXTCLOUD_HOST": "ftp://x", "NEXTCLOUD_MCP_TYPO": "1"}, ["NEXTCLOUD_HOST is not a web address"]),
    ],
    ids=["folder", "setting", "several", "address"],
)
def test_where_the_log_is_json_so_is_the_refusal(variables: dict[str, str], events: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nextcloud_mcp_server", "serve", "--transport", "http", "--port", "0"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=child_environment({"NEXTCLOUD_HOST": "http://127.0.0.1:9", "LOG_FORMAT": "json"} | variables)
        | {"PATH": os.environ["PATH"]},
    )

    lines = [json.loads(line) for line in done.stderr.splitlines()]
    errors = [line["event"] for line in lines if line["level"] == "error"]
    assert (done.returncode, done.stdout) == (2, "")
    assert [error[: len(event)] for error, event in zip(errors, events, strict=True)] == events


def test_a_command_of_the_operator_answers_in_words_all_the_same(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nextcloud_mcp_server", "grants", "list"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=child_environment({"HOLD_SECONDS": "soon", "LOG_FORMAT": "json", "DATA_DIR": str(tmp_path)})
        | {"PATH": os.environ["PATH"]},
    )

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("Error: Invalid HOLD_SECONDS")
