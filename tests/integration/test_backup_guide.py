"""The commands of the guide “Backup and restore”, as docs/operate/backup.md prints them, beside a server that runs."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from anyio import to_thread
from pydantic import SecretStr

from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict, look_at_database
from nextcloud_mcp_server.commands.doctor.connections import look_at_connections
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.server.services import now, open_database
from nextcloud_mcp_server.settings.environment import Settings
from nextcloud_mcp_server.storage.crypto import new_key
from tests.integration.builtin_app import BuiltinApp, open_builtin_app

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="the guide's commands are those of a shell"),
]

GUIDE = (Path(__file__).parents[2] / "docs" / "operate" / "backup.md").read_text(encoding="utf-8")


def commands_of(database: str) -> tuple[str, str]:
    """Return the guide's commands to back a database up, and to restore it."""
    (row,) = re.findall(rf"^\| {database} \| `(.+)` \| `(.+)` \|$", GUIDE, re.MULTILINE)
    return row


def after_restore() -> str:
    (command,) = re.findall(r"run one more command before the server starts again:\n\n```\n(.+)\n```", GUIDE)
    return command


async def shell(command: str, *, folder: Path, variables: dict[str, str]) -> str:
    def run() -> str:
        environment = {name: value for name, value in os.environ.items() if name.startswith("PG")}
        environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder)}
        finished = subprocess.run(
            command,  # the guide's own line
            shell=True,
            cwd=folder,
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    return await to_thread.run_sync(run)


async def users(settings: Settings) -> list[str]:
    async with open_database(settings) as database:
        return sorted(grant.account.uid for grant in await database.grants.all())


async def connections(settings: Settings) -> list[Finding]:
    url = settings.require_nextcloud()
    async with open_pool(ca_bundle=None, user_agent="doctor") as pool:
        nextcloud = Nextcloud(NextcloudUrl.parse(url), pool)
        return await look_at_connections(settings, nextcloud, url=url, clock=now)


async def played(
    builtin_app: BuiltinApp, *, database: str, empty: str, replace: tuple[str, str] = ("", "")
) -> None:
    """Back up beside the running server, lose everything, restore, and use the former grant."""
    settings = builtin_app.config
    assert settings
    back_up, restore = (command.replace(*replace) for command in commands_of(database))
    shell_ = partial(shell, folder=settings.data_path, variables=builtin_app.variables())
    async with httpx2.AsyncClient(timeout=60) as http:
        async with builtin_app.person("alice") as alice, builtin_app.person("bob") as bob:
            await builtin_app.sign_in(alice, http)
            await shell_(back_up)
            await builtin_app.sign_in(bob, http)
        assert await users(settings) == ["alice", "bob"]
        await builtin_app.stop()
        await shell_(empty)

        await shell_(restore)
        refused = await look_at_database(
            settings.model_copy(update={"token_encryption_keys": (SecretStr(new_key()),)})
        )
        told = await shell_(after_restore())
        await builtin_app.start()
        ready = await http.get(f"{builtin_app.url}/readyz")

    assert refused.verdict is Verdict.FAIL
    assert "sealed with another key" in refused.text
    assert "Accesses that work and were kept: 1 of 1." in told
    assert ready.status_code == 200
    assert await users(settings) == ["alice"]
    assert await connections(settings) == [Finding(Verdict.OK, "connections", "1 works")]


async def test_a_file_is_backed_up_beside_the_server_and_restored_elsewhere(tmp_path: Path) -> None:
    async with open_builtin_app(tmp_path / "data") as builtin_app:
        await played(builtin_app, database="SQLite", empty="rm -f state.db state.db-* && ls -A")


async def test_postgresql_is_backed_up_beside_the_server_and_restored_into_an_empty_one(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = urlsplit(postgres_url)
    place = {"PGUSER": parts.username, "PGPASSWORD": parts.password, "PGPORT": parts.port}
    place["PGHOST"] = parts.hostname or parse_qs(parts.query)["host"][0]
    for variable, value in place.items():
        if value is not None:
            monkeypatch.setenv(variable, str(value))
    name = parts.path.strip("/")
    psql = partial(shell, folder=tmp_path, variables={"PGDATABASE": name})
    # The server's account is no administrator. The tests' schema gets the owner that PostgreSQL gives by itself; one
    # that another test left here for the next (`tests/kept_schema.py`) would belong to the administrator.
    made = f"create role {name} login password $$p$$; alter database {name} owner to {name}"
    ours = "drop schema if exists kept cascade; alter schema public owner to pg_database_owner"
    await psql(f"psql --quiet --command '{made}; {ours}'")
    host = parts.netloc.rpartition("@")[2]
    theirs = parts._replace(netloc=f"{name}:p@{host}").geturl()
    try:
        async with open_builtin_app(tmp_path / "data", database_url=theirs) as builtin_app:
            # The tests' database and account in place of the guide's `mcp`.
            await played(
                builtin_app, database="PostgreSQL", empty=f"dropdb --force {name}", replace=("mcp", name)
            )
        may = f"select has_schema_privilege('{name}', 'public', 'CREATE')"
        assert await psql(f'psql --tuples-only --no-align --command "{may}"') == "t\n"
    finally:
        ended = f"reassign owned by {name} to current_user; drop owned by {name}; drop role {name}"
        await psql(f"psql --quiet --command '{ended}'")
