"""The ways of docs/quickstart-builtin.md beside an existing Nextcloud, typed as they stand there."""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.settings.names import known_variables
from tests.published_schemas import read_yaml

PAGE = Path(__file__).parents[2] / "docs" / "quickstart-builtin.md"


def commands() -> str:
    """Give what is to be typed on the server's host, without the server itself, which would stay."""
    section = PAGE.read_text(encoding="utf-8").partition("## With a Nextcloud that you have already")[2]
    blocks = re.findall(r"^   ```\n(.+?)^   ```$", section, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    return "".join(blocks).replace("nextcloud-mcp-server serve &\n", "")


def installed_in(folder: Path) -> dict[str, str]:
    """Put the program and its Python on the path; return an environment without its settings."""
    for name, command in (
        ("nextcloud-mcp-server", f"{sys.executable} -m nextcloud_mcp_server"),
        ("python", sys.executable),
    ):
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / name).chmod(0o700)
    environment = {name: text for name, text in os.environ.items() if name not in known_variables()}
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    return environment


async def test_an_operator_with_a_nextcloud_of_their_own_succeeds_with_the_quickstart(
    tmp_path: Path,
) -> None:
    environment = installed_in(tmp_path)
    async with serving(Sandbox.demo()) as nextcloud:
        typed = commands()
        for there, here in (
            ("https://cloud.example.org", nextcloud),
            # Nothing answers there, which the doctor only warns of.
            ("https://mcp.example.org", "http://127.0.0.1:9"),
            ("/etc/nextcloud-mcp", f"{tmp_path}/etc"),
            ("/var/lib/nextcloud-mcp", f"{tmp_path}/data"),
        ):
            typed = typed.replace(there, here)
        told = await anyio.run_process(
            ["sh", "-ec", typed], input=b"admin\nadmin\n", env=environment, cwd=tmp_path, check=False
        )

    out, err = told.stdout.decode(), told.stderr.decode()
    assert told.returncode == 0, out + err
    assert "ok    OAuth2 client: known to Nextcloud, with our redirect URI" in out
    assert "ok    keys: given by TOKEN_ENCRYPTION_KEYS_FILE" in out
    assert "Error" not in err
    assert {
        file.stat().st_mode & 0o077 for file in (tmp_path / "etc").iterdir() if file.name != "environment"
    } == {0}


def texts_of(folders: Iterable[Path]) -> dict[Path, str]:
    """Read every file of the secrets and of the database's login."""
    return {
        path: path.read_text() for folder in folders if folder.name != "data" for path in folder.iterdir()
    }


@pytest.mark.process
async def test_setup_of_the_compose_file_makes_once_what_its_server_reads(tmp_path: Path) -> None:
    services = read_yaml(PAGE.parents[1] / "docker-compose.existing.yml")["services"]
    folders = {folder: tmp_path / folder.strip("/") for folder in ("/secrets", "/database", "/data")}
    for folder in folders.values():
        folder.mkdir()

    def here(text: str) -> str:
        """Write a text of the file as its containers have it, with folders of this test."""
        for there, folder in folders.items():
            text = re.sub(rf"(?<![\w/@.]){there}\b", str(folder), text)
        return text.replace("$$", "$")

    script = [here(word) for word in services["setup"]["command"]]
    async with serving(Sandbox.demo()) as nextcloud:
        environment = installed_in(tmp_path) | {
            "MODE": "builtin",
            "NEXTCLOUD_HOST": nextcloud,
            "NEXTCLOUD_MCP_SERVER_URL": "http://127.0.0.1:9",
        }
        first = await anyio.run_process(
            script, input=b"admin\nadmin\n", env=environment, cwd=tmp_path, check=False
        )
        made = texts_of(folders.values())
        again = await anyio.run_process(script, input=b"", env=environment, cwd=tmp_path, check=False)
        told = services["server"]["environment"]
        server = environment | {
            name: here(text) for name, text in told.items() if name.endswith("_FILE") and "$" not in text
        }
        doctor = await anyio.run_process(
            ["nextcloud-mcp-server", "doctor"],
            env=server | {"DATA_DIR": str(folders["/data"]), "DATABASE_URL_FILE": ""},
            cwd=tmp_path,
            check=False,
        )

    assert first.returncode == 0, first.stderr.decode()
    assert {path.name for path in made} == {
        "encryption-keys",
        "nextcloud-client-id",
        "nextcloud-client-secret",
        "password",
        "url",
    }
    assert again.returncode == 0, again.stderr.decode()
    assert texts_of(folders.values()).items() >= made.items()
    # PostgreSQL has another account, and reads the password alone.
    assert {path.name for path in made if path.stat().st_mode & 0o077} == {"password"}
    password = (folders["/database"] / "password").read_text().strip()
    assert (folders["/database"] / "url").read_text() == f"postgresql://mcp:{password}@postgres/mcp\n"
    out = doctor.stdout.decode()
    assert "ok    OAuth2 client: known to Nextcloud, with our redirect URI" in out, out
    assert "ok    keys: given by TOKEN_ENCRYPTION_KEYS_FILE" in out
