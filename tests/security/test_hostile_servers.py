"""Hostile servers, and a user's own mistakes: the client prints one sentence, and runs, stores and leaks nothing.

The bridge before the same servers is in `tests/integration/test_bridge_faults.py`.
"""

import json
import socket
import sys
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, cast

import pytest
from keyring.errors import KeyringLocked
from typer.testing import CliRunner, Result

from nextcloud_mcp_server import cli
from tests.unit.bridge.oauth.test_keyring_vault import Keyring, use

pytestmark = pytest.mark.process

SECRET: Final = "canary-6f1d"
#: Opens a page as a browser would, but follows a script: answers for the callback, which it sends one after the other.
BROWSER: Final = """#!{python}
import sys, urllib.parse, urllib.request
open({opened!r}, "a").write(sys.argv[1] + chr(10))
query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(sys.argv[1]).query))
for answer in {answers!r}:
    answer = {{key: value.replace("STATE", query["state"]) for key, value in answer.items()}}
    try:
        urllib.request.urlopen(query["redirect_uri"] + "?" + urllib.parse.urlencode(answer), timeout=30).read()
    except OSError as error:
        open({opened!r}, "a").write(f"{{error}}" + chr(10))
"""


@dataclass
class Hostile:
    """A server over HTTP that answers what a test says, and a host that nothing is to reach."""

    url: str
    elsewhere: str
    #: Path and body of each request, here and at the other host.
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    strayed: list[str] = field(default_factory=list[str])
    answer: Callable[[str, dict[str, Any]], tuple[int, dict[str, str], bytes]] = lambda _path, _body: (
        404,
        {},
        b"",
    )

    def paths(self, path: str) -> list[str]:
        return [body for one, body in self.requests if one == path]


@pytest.fixture
def hostile() -> Generator[Hostile]:
    found = Hostile("", "")

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            text = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            found.requests.append((self.path, text))
            body: dict[str, Any] = json.loads(text) if text.startswith("{") else {}
            status, headers, content = found.answer(self.path, body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(content)
                while content == ENDLESS:
                    self.wfile.write(b"x" * 100_000)
            except OSError:
                self.close_connection = True

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - the names of the library

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the same
            del format, args

    class Elsewhere(Handler):
        def _serve(self) -> None:
            found.strayed.append(self.path)
            self.send_error(404)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - the same

    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for handler in (Handler, Elsewhere)]
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    found.url, found.elsewhere = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    yield found
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the user an empty home, a desktop, and a secret in the environment."""
    for name, value in {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "NEXTCLOUD_MCP_CLIENT_TOKEN_STORE": "file",
        "DISPLAY": ":0",
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "CANARY": SECRET,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    browser(tmp_path)
    return tmp_path


def browser(home: Path, *answers: dict[str, str]) -> None:
    """Let the user's browser send these answers to the callback."""
    program = home / "bin" / "xdg-open"
    program.parent.mkdir(exist_ok=True)
    text = BROWSER.format(python=sys.executable, opened=str(home / "opened"), answers=list(answers))
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)


def client(*words: str) -> Result:
    return CliRunner().invoke(cli.app, ["client", *words])


def check_nothing_happened(home: Path, hostile: Hostile, outcome: Result) -> str:
    """Return the one sentence, after a look for what must not be there."""
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit)
    assert outcome.exit_code in {1, 2, 3, 4, 5}
    assert outcome.stdout == ""
    assert hostile.strayed == []
    assert [path for path in (home / "data").rglob("*") if path.suffix != ".lock" and path.is_file()] == []
    assert not (home / "mark").exists()
    assert SECRET not in outcome.stderr
    assert "Traceback" not in outcome.stderr
    errors = [line for line in outcome.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert len(errors[0]) < 500
    return errors[0]


JSON: Final = {"content-type": "application/json"}
ENDLESS: Final = b'{"jsonrpc":"2.0","id":1,"result":{"x":"'


@pytest.mark.parametrize(
    ("status", "headers", "content", "sentence"),
    [
        (200, JSON, b"\xff\x00{garbage" * 20, "no JSON-RPC"),
        (200, JSON, b'{"jsonrpc": "2.0"}', "no JSON-RPC"),
        (200, {"content-type": "text/html"}, b"<html>Sign in</html>", "answered text/html, which is not MCP"),
        (307, {"location": "ELSEWHERE/mcp"}, b"", "not followed"),
        (302, {"location": "file:///etc/passwd"}, b"", "not followed"),
        (200, JSON, ENDLESS, "sent an answer of more than 33554432 bytes."),
        (200, JSON | {"content-encoding": "gzip"}, b"\x1f\x8b", "compressed its answer"),
    ],
)
def test_an_answer_that_is_none_is_one_sentence(  # noqa: PLR0917 - a table
    home: Path, hostile: Hostile, status: int, headers: dict[str, str], content: bytes, sentence: str
) -> None:
    sent = {name: value.replace("ELSEWHERE", hostile.elsewhere) for name, value in headers.items()}
    hostile.answer = lambda _path, _body: (status, sent, content)

    outcome = client("tools", f"{hostile.url}/mcp")

    assert sentence in check_nothing_happened(home, hostile, outcome)


def test_an_unknown_version_is_named(home: Path, hostile: Hostile) -> None:
    hostile.answer = mcp(lambda _: {"protocolVersion": "1999-01-01"})

    sentence = check_nothing_happened(home, hostile, client("tools", f"{hostile.url}/mcp"))

    assert "got 1999-01-01" in sentence


def mcp(
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> Callable[[str, dict[str, Any]], tuple[int, dict[str, str], bytes]]:
    """Answer as a server of the handshake era whose only tool asks for a page."""

    def answer(path: str, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        if path != "/mcp" or "id" not in body:
            return 202 if body else 405, {}, b""
        results: dict[str, dict[str, Any]] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]},
        }
        method = str(body["method"])
        error: dict[str, Any] = {"code": -32601, "message": "No"}
        if method == "tools/call":
            error = {"code": -32042, "message": "Pay", "data": {"elicitations": [change(body)]}}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": body["id"]}
        if method in results:
            message["result"] = results[method] | (change(body) if method == "initialize" else {})
        else:
            message["error"] = error
        return 200, JSON, json.dumps(message).encode()

    return answer


ADDRESSES: Final = [
    "file:///etc/passwd",
    "vscode://extension/run",
    "javascript:alert(1)",
    "https://example.org/$(touch${IFS}mark)",
    "https://example.org/`touch mark`",
    "https://example.org/;touch mark",
    "https://example.org/|touch mark",
    "--version",
    "https://bank.example@evil.example/",
]


@pytest.mark.parametrize("url", ADDRESSES)
def test_a_hostile_page_of_a_call_is_opened_nowhere(home: Path, hostile: Hostile, url: str) -> None:
    page = {"mode": "url", "elicitationId": "e", "message": "Pay first.", "url": url}
    hostile.answer = mcp(lambda body: page if body["method"] == "tools/call" else {})

    outcome = client("call", f"{hostile.url}/mcp", "pay", "--yes")

    sentence = check_nothing_happened(home, hostile, outcome)
    assert "the page that the call needs was not opened" in sentence
    assert url not in outcome.stderr
    assert not (home / "opened").exists()


def oauth(hostile: Hostile, **changed: object) -> None:
    """Answer as a server that wants a sign-in, whose metadata has these members."""

    def answer(path: str, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        base = hostile.url
        found: dict[str, dict[str, object]] = {
            "/.well-known/oauth-protected-resource/mcp": {
                "resource": f"{base}/mcp",
                "authorization_servers": [base],
            },
            "/.well-known/oauth-authorization-server": {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "registration_endpoint": f"{base}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                **changed,
            },
            "/register": {"client_id": "client", **body},
            "/token": {"access_token": SECRET, "token_type": "Bearer"},
        }
        if path in found:
            return 201 if path == "/register" else 200, JSON, json.dumps(found[path]).encode()
        return 401 if path == "/mcp" else 404, {"www-authenticate": "Bearer"}, b""

    hostile.answer = answer


@pytest.mark.parametrize("url", ADDRESSES)
def test_a_hostile_authorization_url_is_opened_nowhere(home: Path, hostile: Hostile, url: str) -> None:
    oauth(hostile, authorization_endpoint=url)

    outcome = client("auth", f"{hostile.url}/mcp")

    check_nothing_happened(home, hostile, outcome)
    assert url not in outcome.stderr
    assert not (home / "opened").exists()
    assert hostile.paths("/token") == []


def test_a_callback_with_a_wrong_state_and_a_second_one_get_no_token(home: Path, hostile: Hostile) -> None:
    oauth(hostile)
    browser(
        home,
        {"code": SECRET, "state": "wrong"},
        {"code": SECRET},
        {"error": "access_denied", "state": "STATE"},
        {"code": SECRET, "state": "STATE"},
    )

    outcome = client("auth", f"{hostile.url}/mcp")

    assert "You did not allow the access" in check_nothing_happened(home, hostile, outcome)
    assert hostile.paths("/token") == []
    first, *refused = (home / "opened").read_text(encoding="utf-8").splitlines()
    assert first.startswith(f"{hostile.url}/authorize?")
    assert refused[:2] == ["HTTP Error 400: Not this sign-in"] * 2


def test_of_two_answers_only_the_first_is_used(home: Path, hostile: Hostile) -> None:
    oauth(hostile)
    browser(home, {"code": "first", "state": "STATE"}, {"code": "second", "state": "STATE"})

    outcome = client("auth", f"{hostile.url}/mcp")

    assert outcome.exit_code == 0
    (body,) = hostile.paths("/token")
    assert "code=first" in body
    assert SECRET not in outcome.stdout + outcome.stderr


def test_a_port_that_is_taken_is_named(home: Path, hostile: Hostile) -> None:
    oauth(hostile)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = cast("int", taken.getsockname()[1])
        outcome = client("auth", f"{hostile.url}/mcp", "--oauth-port", str(port))

    assert str(port) in check_nothing_happened(home, hostile, outcome)
    assert hostile.paths("/register") == []
    assert not (home / "opened").exists()


def test_a_keyring_that_is_locked_is_told_before_the_user_signs_in(
    home: Path, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    oauth(hostile)
    use(monkeypatch, Keyring(fault=KeyringLocked(SECRET)))
    monkeypatch.setenv("NEXTCLOUD_MCP_CLIENT_TOKEN_STORE", "keyring")

    outcome = client("auth", f"{hostile.url}/mcp")

    assert "is locked: unlock it" in check_nothing_happened(home, hostile, outcome)
    assert not (home / "opened").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('comand = "touch"\nargs = ["mark"]', 'Unknown key "comand"; did you mean "command"?'),
        ('command = "touch"\nargs = ["mark"]\noauht = "auto"', 'Unknown key "oauht"'),
        ('command = "touch"\nargs = "mark"', '"args"'),
        ('type = "htpp"\nurl = "https://a.example/${CANARY}"', '"transport"'),
        ('type = "http"\nurl = "ftp://${CANARY}.example/"', '"url" must be an address'),
        ('type = "http"\nurl = "https://me:${CANARY}@a.example/"', "must not contain a name or password"),
        ('command = "touch"\nargs = ["mark", "${CANRY}"]', "The environment variable CANRY is not set"),
        ('command = "touch"\nargs = ["mark"', "is not TOML"),
    ],
)
def test_a_typing_error_in_the_configuration_is_named_and_nothing_started(
    home: Path, hostile: Hostile, text: str, sentence: str
) -> None:
    file = home / "settings.toml"
    file.write_text(f"[mcp_servers.one]\n{text}\n", encoding="utf-8")

    outcome = client("--config", str(file), "ping", "one")

    assert check_nothing_happened(home, hostile, outcome).startswith("Error: MCP server not found: one")
    (note,) = [line for line in outcome.stderr.splitlines() if line.startswith("Note: left out: ")]
    assert sentence in note
    assert str(file) in note
