"""The second way of docs/quickstart-builtin.md, typed as it stands there."""

import os
import re
import sys
from pathlib import Path

import anyio

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.serve import serving
from nextcloud_mcp_server.settings.names import known_variables

PAGE = Path(__file__).parents[2] / "docs" / "quickstart-builtin.md"


def commands() -> str:
    """Give what is to be typed on the server's host, without the server itself, which would stay."""
    section = PAGE.read_text(encoding="utf-8").partition("## With a Nextcloud that you have already")[2]
    blocks = re.findall(r"^   ```\n(.+?)^   ```$", section, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    return "".join(blocks).replace("nextcloud-mcp-server serve &\n", "")


async def test_an_operator_with_a_nextcloud_of_their_own_succeeds_with_the_quickstart(
    tmp_path: Path,
) -> None:
    (tmp_path / "nextcloud-mcp-server").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m nextcloud_mcp_server "$@"\n'
    )
    (tmp_path / "nextcloud-mcp-server").chmod(0o700)
    environment = {name: text for name, text in os.environ.items() if name not in known_variables()}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
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
