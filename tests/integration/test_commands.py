"""The commands, from end to end against the sandbox, with a user in the browser."""

import json
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest

from nextcloud_mcp_server import cli
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.sandbox.serve import running
from nextcloud_mcp_server.settings.names import known_variables

Patch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]


class Browser(webbrowser.BaseBrowser):
    """The computer's browser, with alice in front of it."""

    def __init__(self) -> None:
        super().__init__("alice")
        self.person = "alice"
        self.consent_service: list[threading.Thread] = []

    def open(
        self,
        url: str,
        new: int = 0,  # noqa: ARG002 - the base class has it
        autoraise: bool = True,  # noqa: ARG002, FBT001, FBT002 - the same
    ) -> bool:
        consent_request = threading.Thread(target=anyio.run, args=(partial(self._consent_request, url),))
        self.consent_service.append(consent_request)
        consent_request.start()
        return True

    async def _consent_request(self, url: str) -> None:
        async with httpx2.AsyncClient(timeout=60) as browser:
            await Person(self.person, self.person, browser=browser).allow(url)


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: Patch) -> Iterator[Sandbox]:
    for name in known_variables():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    # Elsewhere it depends on the machine.
    monkeypatch.setenv("CONSENT_PAGE", "nextcloud")
    sandbox = Sandbox.demo()
    with running(sandbox) as url:
        monkeypatch.setenv("NEXTCLOUD_HOST", url)
        yield sandbox


@pytest.fixture
def browser(monkeypatch: Patch) -> Iterator[Browser]:
    browser = Browser()
    monkeypatch.setattr(webbrowser, "_browsers", {})
    monkeypatch.setattr(webbrowser, "_tryorder", [])
    webbrowser.register("alice", None, browser, preferred=True)
    yield browser
    for consent_request in browser.consent_service:
        consent_request.join()


def run(arguments: str, monkeypatch: Patch) -> int:
    monkeypatch.setattr(sys, "argv", ["nextcloud-mcp-server", *arguments.split()])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


@pytest.mark.usefixtures("sandbox", "browser")
def test_a_person_connects_looks_and_disconnects_from_the_terminal(
    monkeypatch: Patch, capsys: Capture
) -> None:
    codes = [run("connect", monkeypatch)]
    connected = capsys.readouterr()
    codes.append(run("grants list", monkeypatch))
    listed = capsys.readouterr()
    monkeypatch.delenv("NEXTCLOUD_HOST")
    codes.append(run("grants revoke", monkeypatch))
    revoked = capsys.readouterr()
    codes.append(run("grants revoke", monkeypatch))
    again = capsys.readouterr()

    assert codes == [0, 0, 0, 0]
    assert connected.out.startswith("Connected as ")
    assert "/login/v2/flow/" in connected.err
    header, row = listed.out.splitlines()
    assert header.split()[:2] == ["USER", "NEXTCLOUD"]
    assert row.startswith("alice  http://127.0.0.1:")
    assert "files:read files:write notes:read notes:write" in row
    assert "Nextcloud has deleted the app password" in revoked.out
    assert again.err.endswith("Nothing is connected.\n")


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("place", ["nextcloud", "loopback"])
def test_after_revoking_in_the_terminal_another_account_can_be_connected(
    browser: Browser, monkeypatch: Patch, capsys: Capture, place: str
) -> None:
    monkeypatch.setenv("CONSENT_PAGE", place)
    codes = [run("connect", monkeypatch), run("grants revoke", monkeypatch)]
    browser.person = "bob"
    codes.append(run("connect", monkeypatch))
    capsys.readouterr()
    codes.append(run("grants list", monkeypatch))

    assert codes == [0, 0, 0, 0]
    assert capsys.readouterr().out.splitlines()[1].startswith("bob ")


def test_a_person_without_a_connection_has_nothing_to_list_or_revoke(
    sandbox: Sandbox, monkeypatch: Patch, capsys: Capture
) -> None:
    codes = [run("grants list", monkeypatch), run("grants revoke", monkeypatch)]

    captured = capsys.readouterr()
    assert codes == [0, 0]
    assert captured.out == ""
    assert "Nothing is connected. Connect with" in captured.err
    assert "Nothing is connected at http://127.0.0.1:" in captured.err
    assert not sandbox.state.app_passwords


@pytest.mark.usefixtures("sandbox")
def test_an_operator_s_app_password_needs_no_browser(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("NEXTCLOUD_USERNAME", "alice")
    monkeypatch.setenv("NEXTCLOUD_APP_PASSWORD", "alice")

    code = run("connect --no-browser", monkeypatch)

    assert code == 0
    assert capsys.readouterr().out.startswith("Connected as ")


@pytest.mark.usefixtures("sandbox")
def test_the_database_is_set_up_beforehand_and_tells_its_version(monkeypatch: Patch, capsys: Capture) -> None:
    codes = [run("db upgrade", monkeypatch), run("db current", monkeypatch), run("doctor", monkeypatch)]

    lines = capsys.readouterr().out.splitlines()
    assert codes == [0, 0, 0]
    assert lines[0] == lines[1]
    assert any(line.startswith("ok    Nextcloud: ") for line in lines)
    assert not [line for line in lines[2:] if line.startswith("fail")]


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def started(arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nextcloud_mcp_server", *arguments.split()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


@pytest.mark.process
@pytest.mark.measured_processes
def test_over_stdio_nothing_but_mcp_is_on_stdout(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    with started("serve --sandbox") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())

        out, err = process.communicate(timeout=600)

    assert answer["id"] == 1
    assert out == ""
    # Not at a terminal the log is JSON, and nothing else stands between its lines.
    assert json.loads(err.splitlines()[0])["event"] == "listening on stdio"
    assert [line for line in err.splitlines() if not isinstance(json.loads(line), dict)] == []
    assert process.returncode == 0


@pytest.mark.process
@pytest.mark.measured_processes
def test_over_http_it_says_where_it_listens_and_asks_for_the_secret(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    with started("serve --sandbox --transport http --port 0") as process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if "listening on" in line:
                break
        # It says so when it does, so the first request is answered.
        with httpx2.Client() as client:
            line = json.loads(said[-1])
            response = client.post(line["event"].split()[-1], json=INITIALIZE)
        process.terminate()
        process.communicate(timeout=600)

    assert "made the secret" in "".join(said)
    assert line["connect"].startswith("nextcloud-mcp-server config claude-code --http --port ")
    assert response.status_code == 401
