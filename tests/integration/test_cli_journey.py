"""The command line as users use it: real processes, a user in the browser, the sandbox behind."""

import re
import signal
import sys
from dataclasses import dataclass

import anyio
import httpx2
import pytest

from tests.integration.personal_app import until
from tests.integration.stdio_app import StdioApp

LIST = "nc_notes_list_notes"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command went."""

    code: int
    out: str
    err: str


async def run(stdio_app: StdioApp, *arguments: str) -> Ran:
    with anyio.fail_after(120):
        done = await anyio.run_process(stdio_app.command(*arguments), check=False, env=stdio_app.environment)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def link(text: str) -> str | None:
    found = re.search(r"http://\S+/login/v2/flow/\S+", text)
    return found.group() if found else None


async def connect(stdio_app: StdioApp) -> tuple[int, str]:
    """Run `connect` with alice at the browser; the answer is the exit code and stdout."""
    async with stdio_app.person() as alice, stdio_app.process("connect", "--no-browser") as process:
        await until(lambda: link(stdio_app.log.read_text("utf-8")) is not None)
        await alice.allow(link(stdio_app.log.read_text("utf-8")) or "")
        assert process.stdout is not None
        said = b"".join([part async for part in process.stdout])
        return await process.wait(), said.decode()


async def test_what_connect_gave_serves_an_assistant_until_it_is_revoked(stdio_app: StdioApp) -> None:
    code, said = await connect(stdio_app)
    async with stdio_app.lines() as client:
        served = await client.call(LIST)
    listed = await run(stdio_app, "grants", "list")
    revoked = await run(stdio_app, "grants", "revoke")
    left = dict(stdio_app.sandbox.state.app_passwords)
    async with stdio_app.lines() as client:
        asked = await client.call(LIST)

    assert code == 0
    assert said.startswith("Connected as ")
    assert "Shopping list" in str(served["result"]["structuredContent"])
    assert [line.split()[:2] for line in listed.out.splitlines()[1:]] == [["alice", stdio_app.nextcloud_url]]
    assert "notes:read" in listed.out
    assert revoked.code == 0
    assert "Nextcloud has deleted the app password" in revoked.out
    assert not left
    assert asked["result"]["isError"] is True


async def test_connect_started_again_after_a_kill_gives_the_same_link(stdio_app: StdioApp) -> None:
    async with stdio_app.process("connect", "--no-browser") as process:
        await until(lambda: link(stdio_app.log.read_text("utf-8")) is not None)
        process.kill()
        await process.wait()
    before = link(stdio_app.log.read_text("utf-8"))
    stdio_app.log.unlink()

    code, _ = await connect(stdio_app)

    assert code == 0
    assert link(stdio_app.log.read_text("utf-8")) == before
    assert len(stdio_app.sandbox.state.app_passwords) == 1


async def test_the_database_is_upgraded_and_tells_its_version(stdio_app: StdioApp) -> None:
    empty = await run(stdio_app, "db", "current")
    upgraded = await run(stdio_app, "db", "upgrade")
    current = await run(stdio_app, "db", "current")

    assert [one.code for one in (empty, upgraded, current)] == [0, 0, 0]
    assert empty.out.startswith("no schema yet")
    assert upgraded.out == current.out
    assert re.fullmatch(r"\d{4}\S*\n", current.out)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send")
async def test_serve_with_the_sandbox_over_http_says_where_it_listens_and_answers(
    stdio_app: StdioApp,
) -> None:
    async with stdio_app.process("serve", "--sandbox", "--transport", "http", "--port", "0") as process:
        await until(lambda: "listening on" in stdio_app.log.read_text("utf-8"))
        (url,) = re.findall(r'listening on ([^\s"]+)', stdio_app.log.read_text("utf-8"))
        answers = await answer_of(url, stdio_app)
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            code = await process.wait()

    assert answers == [401, 200]
    assert code in (0, -signal.SIGTERM)


async def answer_of(url: str, stdio_app: StdioApp) -> list[int]:
    """Ask without and with the secret that the server made."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "cli", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    accept = {"Accept": "application/json, text/event-stream"}
    transport = httpx2.AsyncHTTPTransport(retries=8)
    async with httpx2.AsyncClient(transport=transport, headers=accept) as http:
        without = await http.post(url, json=message)
        secrets = [path.read_text("utf-8").strip() for path in stdio_app.data_dir.rglob("http.secret")]
        allowed = {"Authorization": f"Bearer {secrets[0]}"}
        return [without.status_code, (await http.post(url, json=message, headers=allowed)).status_code]


async def test_an_unknown_setting_is_named_with_the_one_that_was_meant(stdio_app: StdioApp) -> None:
    stdio_app.settings["NEXTCLOUD_HOSTS"] = "https://cloud.example.org"
    async with stdio_app.lines() as client:
        await client.request("tools/list", {})
        await client.leave()

    warnings = [line for line in stdio_app.log.read_text("utf-8").splitlines() if "NEXTCLOUD_HOSTS" in line]
    assert len(warnings) == 1
    assert "did you mean NEXTCLOUD_HOST?" in warnings[0]


@pytest.mark.parametrize(
    ("arguments", "settings", "named"),
    [
        ("serve", {"NEXTCLOUD_HOST": ""}, "NEXTCLOUD_HOST"),
        ("serve", {"NEXTCLOUD_HOST": "ftp://cloud.example.org"}, "NEXTCLOUD_HOST"),
        ("serve", {"HOLD_SECONDS": "soon"}, "HOLD_SECONDS"),
        ("serve", {"TOKEN_ENCRYPTION_KEYS": "TTXq"}, "TOKEN_ENCRYPTION_KEYS"),
        ("serve --transport http --host 0.0.0.0 --no-local-auth", {}, "--no-local-auth"),
    ],
)
async def test_settings_that_cannot_work_refuse_to_start_in_one_sentence(
    stdio_app: StdioApp, arguments: str, settings: dict[str, str], named: str
) -> None:
    stdio_app.settings |= settings

    refused = await run(stdio_app, *arguments.split())

    assert refused.code == 2
    assert refused.out == ""
    assert "Traceback" not in refused.err
    assert refused.err.splitlines()[-1].startswith("Error: ")
    assert named.lower() in refused.err.lower().replace("no_local_auth", "--no-local-auth")
    assert "TTXq" not in refused.err


async def test_connect_to_a_nextcloud_out_of_reach_says_so_in_one_sentence(stdio_app: StdioApp) -> None:
    refused = await run(stdio_app, "connect", "--no-browser", "--nextcloud", "http://127.0.0.1:9")

    assert refused.code == 1
    assert "Traceback" not in refused.err
    assert refused.err.splitlines()[-1].startswith("Error: ")
