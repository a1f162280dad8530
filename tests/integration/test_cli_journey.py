"""The command line as people use it: real processes, a person in the browser, the sandbox behind."""

import re
import signal
import sys
from dataclasses import dataclass

import anyio
import httpx2
import pytest

from tests.integration.computer import Computer
from tests.integration.world import until

LIST = "nc_notes_list_notes"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command went."""

    code: int
    out: str
    err: str


async def run(computer: Computer, *arguments: str) -> Ran:
    with anyio.fail_after(120):
        done = await anyio.run_process(computer.command(*arguments), check=False, env=computer.environment)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def link(text: str) -> str | None:
    found = re.search(r"http://\S+/login/v2/flow/\S+", text)
    return found.group() if found else None


async def connect(computer: Computer) -> tuple[int, str]:
    """Run `connect` with alice at the browser; the answer is the exit code and stdout."""
    async with computer.person() as alice, computer.process("connect", "--no-browser") as process:
        await until(lambda: link(computer.log.read_text("utf-8")) is not None)
        await alice.allow(link(computer.log.read_text("utf-8")) or "")
        assert process.stdout is not None
        said = b"".join([part async for part in process.stdout])
        return await process.wait(), said.decode()


async def test_what_connect_gave_serves_an_assistant_until_it_is_revoked(computer: Computer) -> None:
    code, said = await connect(computer)
    async with computer.lines() as client:
        served = await client.call(LIST)
    listed = await run(computer, "grants", "list")
    revoked = await run(computer, "grants", "revoke")
    left = dict(computer.sandbox.state.app_passwords)
    async with computer.lines() as client:
        asked = await client.call(LIST)

    assert code == 0
    assert said.startswith("Connected as ")
    assert "Shopping list" in str(served["result"]["structuredContent"])
    assert listed.out.startswith(f"alice on {computer.nextcloud_url}")
    assert "notes:read" in listed.out
    assert revoked.code == 0
    assert "Nextcloud has deleted the app password" in revoked.out
    assert not left
    assert asked["result"]["isError"] is True


async def test_connect_started_again_after_a_kill_gives_the_same_link(computer: Computer) -> None:
    async with computer.process("connect", "--no-browser") as process:
        await until(lambda: link(computer.log.read_text("utf-8")) is not None)
        process.kill()
        await process.wait()
    before = link(computer.log.read_text("utf-8"))
    computer.log.unlink()

    code, _ = await connect(computer)

    assert code == 0
    assert link(computer.log.read_text("utf-8")) == before
    assert len(computer.sandbox.state.app_passwords) == 1


async def test_the_database_is_upgraded_and_tells_its_version(computer: Computer) -> None:
    empty = await run(computer, "db", "current")
    upgraded = await run(computer, "db", "upgrade")
    current = await run(computer, "db", "current")

    assert [one.code for one in (empty, upgraded, current)] == [0, 0, 0]
    assert empty.out.startswith("no schema yet")
    assert upgraded.out == current.out
    assert re.fullmatch(r"\d{4}\S*\n", current.out)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send")
async def test_serve_with_the_sandbox_over_http_says_where_it_listens_and_answers(computer: Computer) -> None:
    async with computer.process("serve", "--sandbox", "--transport", "http", "--port", "0") as process:
        await until(lambda: "listening on" in computer.log.read_text("utf-8"))
        (url,) = re.findall(r"listening on (\S+)", computer.log.read_text("utf-8"))
        answers = await answer_of(url, computer)
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            code = await process.wait()

    assert answers == [401, 200]
    assert code in (0, -signal.SIGTERM)


async def answer_of(url: str, computer: Computer) -> list[int]:
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
        secrets = [path.read_text("utf-8").strip() for path in computer.data_dir.rglob("http.secret")]
        allowed = {"Authorization": f"Bearer {secrets[0]}"}
        return [without.status_code, (await http.post(url, json=message, headers=allowed)).status_code]


async def test_an_unknown_setting_is_named_with_the_one_that_was_meant(computer: Computer) -> None:
    computer.settings["NEXTCLOUD_HOSTS"] = "https://cloud.example.org"
    async with computer.lines() as client:
        await client.request("tools/list", {})
        await client.leave()

    warnings = [line for line in computer.log.read_text("utf-8").splitlines() if "NEXTCLOUD_HOSTS" in line]
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
    computer: Computer, arguments: str, settings: dict[str, str], named: str
) -> None:
    computer.settings |= settings

    refused = await run(computer, *arguments.split())

    assert refused.code == 2
    assert refused.out == ""
    assert "Traceback" not in refused.err
    assert refused.err.splitlines()[-1].startswith("Error: ")
    assert named.lower() in refused.err.lower().replace("no_local_auth", "--no-local-auth")
    assert "TTXq" not in refused.err


async def test_connect_to_a_nextcloud_out_of_reach_says_so_in_one_sentence(computer: Computer) -> None:
    refused = await run(computer, "connect", "--no-browser", "--nextcloud", "http://127.0.0.1:9")

    assert refused.code == 1
    assert "Traceback" not in refused.err
    assert refused.err.splitlines()[-1].startswith("Error: ")
