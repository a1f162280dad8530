"""Tasks belong to one user and one client: over two replicas, with the tokens of several users, in one database."""

import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.demo.oauth_client import claims_of
from nextcloud_mcp_server.demo.wire_client import StatelessClient
from nextcloud_mcp_server.protocol.wire import TASKS_EXTENSION
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.records import AuditEntry, Principal
from nextcloud_mcp_server.storage.task_records import (
    LIFETIME,
    NO_LONGER_PERMITTED,
    SIGN_IN_ENDED,
    Lease,
    TaskOwner,
    TaskStatus,
)
from nextcloud_mcp_server.storage.tasks import TaskRepository
from tests.auth_fixtures import page_url
from tests.integration.builtin_app import open_builtin_app
from tests.integration.oidc_app import OidcApp, disconnect, open_oidc_app
from tests.integration.personal_app import until

CANARY = "canary-4f1d"
READ: dict[str, Any] = {"name": "nc_files_read_file", "arguments": {"path": f"{CANARY}.txt"}}
#: So long that the call is a task before it ends.
A_WHILE = 0.2
FOREVER_SECONDS = 600


@asynccontextmanager
async def client(app: OidcApp, token: str, *, port: int | None = None) -> AsyncGenerator[StatelessClient]:
    declared: dict[str, Any] = {"elicitation": {"url": {}}, "extensions": {TASKS_EXTENSION: {}}}
    headers = {"Authorization": f"Bearer {token}", "Host": app.url.removeprefix("http://")}
    url = app.url if port is None else f"http://127.0.0.1:{port}"
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        yield StatelessClient(http, f"{url}/mcp", capabilities=declared)


async def connect(app: OidcApp, wire: StatelessClient, name: str) -> None:
    """Connect a user, and read once, so that the app password is proved."""
    async with httpx2.AsyncClient(timeout=60) as browser:
        asked = (await wire.request("tools/call", READ))["result"]
        await Person(name, name, browser=browser).consent(
            asked["inputRequests"]["provision"]["params"]["url"]
        )
        accepted = {"provision": {"action": "accept"}}
        answered = {**READ, "requestState": asked["requestState"], "inputResponses": accepted}
        assert (await wire.request("tools/call", answered))["result"]["resultType"] == "complete"


async def begun(app: OidcApp, wire: StatelessClient, seconds: float) -> str:
    """Start a reading that takes so long; return the id of its task."""
    assert app.parts is not None
    app.sandbox.faults.slow(seconds, area="dav", times=1)
    app.parts.task_runner.grace_seconds = 0
    return str((await wire.request("tools/call", READ))["result"]["taskId"])


async def get(wire: StatelessClient, task_id: str) -> dict[str, Any]:
    answer = await wire.request("tasks/get", {"taskId": task_id})
    return answer.get("result") or answer["error"]


async def ended(wire: StatelessClient, task_id: str) -> dict[str, Any]:
    with anyio.fail_after(60):
        while True:
            task = await get(wire, task_id)
            if task["status"] != "working":
                return task
            await anyio.sleep(0.02)


def stored_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_task_is_its_client_s_alone_at_every_replica_and_sealed_in_the_database(
    tmp_path: Path,
) -> None:
    async with open_oidc_app(tmp_path, hold_seconds=0) as app:
        app.sandbox.state.users["alice"].files.put(f"/{CANARY}.txt", f"{CANARY} text".encode())
        runs = app.parts
        assert runs is not None
        async with app.replica() as port, client(app, app.token("alice")) as alice:
            other = app.parts
            await connect(app, alice, "alice")
            app.parts = runs
            task_id = await begun(app, alice, A_WHILE)
            async with client(app, app.token("alice"), port=port) as elsewhere:
                done = await ended(elsewhere, task_id)
            seen = list[dict[str, Any]]()
            for token in (app.token("bob"), app.token("alice", client_id="another")):
                async with client(app, token) as stranger:
                    seen += [await get(stranger, task_id), await get(stranger, "0" * 32)]
                    cancelled = await stranger.request("tasks/cancel", {"taskId": task_id})
                    seen.append(cancelled["error"])
            async with client(app, app.token("alice", scope="notes:read")) as narrow:
                seen.append(await get(narrow, task_id))
            running = await begun(app, alice, FOREVER_SECONDS)
            assert other is not runs
            assert await disconnect(app, "alice")
            runs.task_runner.wake()
            await until(lambda: not runs.task_runner.holds(running))
            seen += [await get(alice, task_id), await get(alice, running)]
        stored = stored_in(tmp_path)

    assert done["status"] == "completed"
    assert f"{CANARY} text" in str(done["result"])
    assert seen == [{"code": -32602, "message": "Task not found"}] * 9
    assert b"tasks" in stored
    assert CANARY.encode() not in stored
    assert task_id.encode() not in stored


async def test_a_client_that_is_paused_while_its_call_works_reads_no_result(tmp_path: Path) -> None:
    """The pause ends the tasks that are stored; this call becomes one only afterwards."""
    async with open_oidc_app(tmp_path, hold_seconds=0) as app, client(app, app.token("alice")) as alice:
        app.sandbox.state.users["alice"].files.put(f"/{CANARY}.txt", f"{CANARY} text".encode())
        await connect(app, alice, "alice")
        assert app.parts is not None
        runner, grants = app.parts.task_runner, (await app.parts.services.get()).database.grants
        (grant,) = await grants.all()
        assert grant.permission is not None
        person, client_id, rows = grant.account.principal, grant.permission.client_id, runner.rows

        async def late() -> TaskRepository:
            await grants.set_paused(person, client_id, paused=True)
            return await rows()

        runner.rows, runner.grace_seconds = late, 0
        app.sandbox.faults.slow(FOREVER_SECONDS, area="dav", times=1)
        answer = (await alice.request("tools/call", READ))["result"]

    assert answer["isError"]
    assert answer["content"][0]["text"] == NO_LONGER_PERMITTED


async def test_a_call_whose_user_connects_another_account_while_it_works_becomes_no_task(
    tmp_path: Path,
) -> None:
    """The new permission covers the tool, but the call reads in the account before."""
    async with open_oidc_app(tmp_path, hold_seconds=0) as app, client(app, app.token("alice")) as alice:
        app.sandbox.state.users["alice"].files.put(f"/{CANARY}.txt", f"{CANARY} text".encode())
        await connect(app, alice, "alice")
        assert app.parts is not None
        runner, database = app.parts.task_runner, (await app.parts.services.get()).database
        (grant,), rows = await database.grants.all(), runner.rows
        permission = grant.permission
        assert permission is not None

        async def late() -> TaskRepository:
            assert await disconnect(app, "alice")
            asked, _ = await database.elicitations.open(
                principal=permission.principal,
                client_id=permission.client_id,
                client_name=permission.client_name,
                kind="page",
                scopes=permission.scopes,
                ttl=timedelta(minutes=10),
                new_url=page_url,
            )
            assert await database.grants.complete(
                elicitation=asked,
                flow=None,
                account=replace(grant.account, uid="bob", storage_id=None),
                credential=replace(grant.credential, id="of-another-account"),
                permission=permission,
                audit=AuditEntry(app.clock(), permission.principal, "", "consent", "granted"),
            )
            return await rows()

        runner.rows, runner.grace_seconds = late, 0
        app.sandbox.faults.slow(FOREVER_SECONDS, area="dav", times=1)
        answer = (await alice.request("tools/call", READ))["result"]

    assert answer["isError"]
    assert answer["content"][0]["text"] == NO_LONGER_PERMITTED


async def test_a_logout_at_the_identity_provider_ends_the_tasks_of_that_person_alone(tmp_path: Path) -> None:
    """A newer token of the same client learns that the task was cancelled, and of no result."""
    async with open_oidc_app(tmp_path, hold_seconds=0) as app:
        old, said_at = app.token("alice"), int(time.time()) + 1
        later = app.issuer.keys.sign({**claims_of(old), "iat": said_at + 10}, typ="at+jwt")
        said: dict[str, Any] = {
            "iss": app.issuer.url,
            "sub": app.issuer.state.accounts["alice"].subject,
            "aud": "us",
            "iat": said_at,
            "exp": said_at + 120,
            "jti": "a-logout",
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        }
        async with (
            client(app, old) as alice,
            client(app, app.token("bob")) as bob,
            client(app, later) as again,
        ):
            for wire, name in ((alice, "alice"), (bob, "bob")):
                app.sandbox.state.users[name].files.put(f"/{CANARY}.txt", f"{CANARY} text".encode())
                await connect(app, wire, name)
            hers, his = await begun(app, alice, FOREVER_SECONDS), await begun(app, bob, FOREVER_SECONDS)
            assert app.parts is not None
            runner = app.parts.task_runner
            async with httpx2.AsyncClient(timeout=60) as http:
                token = app.issuer.keys.sign(said, typ="logout+jwt")
                answer = await http.post(f"{app.url}/oauth/backchannel-logout", data={"logout_token": token})
            await until(lambda: not runner.holds(hers))

            assert answer.status_code == 200
            assert runner.holds(his)
            assert (await get(again, hers))["status"] == "cancelled"
            assert (await get(bob, his))["status"] == "working"


async def test_a_call_whose_user_logs_out_before_it_is_a_task_becomes_none(tmp_path: Path) -> None:
    async with open_oidc_app(tmp_path, hold_seconds=0) as app, client(app, app.token("alice")) as alice:
        app.sandbox.state.users["alice"].files.put(f"/{CANARY}.txt", f"{CANARY} text".encode())
        await connect(app, alice, "alice")
        said: dict[str, Any] = {
            "iss": app.issuer.url,
            "sub": app.issuer.state.accounts["alice"].subject,
            "aud": "us",
            "iat": int(time.time()) + 1,
            "exp": int(time.time()) + 120,
            "jti": "a-logout",
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        }

        async def log_out() -> None:
            async with httpx2.AsyncClient(timeout=60) as http:
                token = app.issuer.keys.sign(said, typ="logout+jwt")
                answer = await http.post(f"{app.url}/oauth/backchannel-logout", data={"logout_token": token})
                assert answer.status_code == 200

        assert await answer_after(app, alice, log_out) == SIGN_IN_ENDED


async def test_a_call_whose_refresh_token_comes_twice_before_it_is_a_task_becomes_none(
    tmp_path: Path,
) -> None:
    """The tasks that are stored by then are deleted; a thief's call must not become one afterwards."""
    async with (
        open_builtin_app(tmp_path, hold_seconds=0) as app,
        httpx2.AsyncClient(timeout=60, follow_redirects=True) as http,
    ):
        app.sandbox.state.users["alice"].files.put(f"/{CANARY}.txt", f"{CANARY} text".encode())
        tokens = await app.sign_in(Person("alice", "alice", browser=http), http, only=["files:read"])
        form = {"grant_type": "refresh_token", "client_id": tokens["client_id"]}

        async def repeat() -> None:
            statuses: list[int] = []
            token = tokens["refresh_token"]
            for _ in range(2):
                answer = await http.post(f"{app.url}/token", data={**form, "refresh_token": token})
                statuses.append(answer.status_code)
                token = answer.json()["refresh_token"]
            again = {**form, "refresh_token": tokens["refresh_token"]}
            statuses.append((await http.post(f"{app.url}/token", data=again)).status_code)
            assert statuses == [200, 200, 400]

        async with client(app, tokens["access_token"]) as thief:
            assert await answer_after(app, thief, repeat) == SIGN_IN_ENDED


async def answer_after(app: OidcApp, wire: StatelessClient, happens: Callable[[], Awaitable[None]]) -> str:
    """Call a tool, let something happen while it works, before it is a task; return the words of the answer."""
    assert app.parts is not None
    runner, rows = app.parts.task_runner, app.parts.task_runner.rows

    async def late() -> TaskRepository:
        runner.rows = rows
        await happens()
        return await rows()

    runner.rows, runner.grace_seconds = late, 0
    app.sandbox.faults.slow(FOREVER_SECONDS, area="dav", times=1)
    answer = (await wire.request("tools/call", READ))["result"]
    with closing(sqlite3.connect(app.data_dir / "state.db")) as connection:
        assert connection.execute("SELECT count(*) FROM tasks WHERE status = 'working'").fetchone() == (0,)
    return str(answer["content"][0]["text"])


@pytest.mark.parametrize(
    ("column", "value", "owner"),
    [
        ("client_id", "codex", TaskOwner(Principal("issuer", "alice"), "codex")),
        ("subject", "bob", TaskOwner(Principal("issuer", "bob"), "claude")),
    ],
)
async def test_a_row_handed_to_another_client_or_user_does_not_open(
    tmp_path: Path, column: str, value: str, owner: TaskOwner
) -> None:
    path, keys = tmp_path / "mcp.db", KeyRing.parse([SecretStr(new_key())])
    now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    database = await Database.open(file_url(path), keys=keys, clock=lambda: now)
    own, lease = TaskOwner(Principal("issuer", "alice"), "claude"), Lease("here", timedelta(seconds=30))
    task = await database.tasks.create(
        own, "a-task", began=None, tool="read", arguments="{}", lifetime=LIFETIME, lease=lease
    )
    assert task is not None
    await database.tasks.finish(task, lease, TaskStatus.COMPLETED, outcome='{"text": "of alice"}')

    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(f"UPDATE tasks SET {column} = ?", (value,)).rowcount == 1

    assert await database.tasks.find(owner, "a-task") is None
    assert await database.tasks.find(own, "a-task") is None
    await database.aclose()
