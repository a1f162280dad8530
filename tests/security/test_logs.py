"""No secret and no text of a user in any log, also at DEBUG; and one line stays one line."""

import io
import logging
from collections.abc import Generator

import pytest

from nextcloud_mcp_server import logs
from tests.integration.personal_app import Asked, PersonalApp

NOTE = "canary-text-of-a-private-note"


@pytest.fixture
def log() -> Generator[io.StringIO]:
    """Everything that is logged, as the server would write it, with our own lines at DEBUG."""
    root, ours = logging.getLogger(), logging.getLogger("nextcloud_mcp_server")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    stream = io.StringIO()
    logs.set_up("debug", stream=stream)
    yield stream
    logging.captureWarnings(capture=False)
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


async def test_a_whole_journey_leaves_no_secret_in_any_log(
    log: io.StringIO, personal_app: PersonalApp, asked: Asked, capfd: pytest.CaptureFixture[str]
) -> None:
    flows: list[str] = []
    secrets: list[str] = []
    async with (
        personal_app.person() as alice,
        personal_app.client(elicitation_callback=asked.by(None)) as client,
    ):

        async def allow(url: str) -> None:
            nextcloud = await alice.allow(url, stop_at_nextcloud=True)
            flows.extend(
                text
                for flow in personal_app.sandbox.state.login_flows
                for text in (flow.poll_token, flow.login_token)
            )
            await alice.allow(nextcloud.url)
            secrets.extend(personal_app.sandbox.state.app_passwords)

        asked.go = allow
        await client.call_tool("nc_notes_create_note", {"title": "Plans", "content": NOTE})
        await client.call_tool("nc_notes_search_notes", {"query": NOTE})
        personal_app.sandbox.faults.status(503, times=5)
        await client.call_tool("nc_notes_list_notes", {})
        personal_app.sandbox.faults.clear()
        personal_app.sandbox.state.app_passwords.clear()
        asked.by(None, action="decline")
        await client.call_tool("nc_notes_list_notes", {})
    logging.getLogger("nextcloud_mcp_server.auth").debug("the log is alive")

    streams = capfd.readouterr()
    written = log.getvalue() + streams.out + streams.err
    assert "the log is alive" in written
    assert flows
    assert secrets
    for canary in (*flows, *secrets, personal_app.secret, NOTE):
        assert canary not in written


async def test_what_a_client_says_stays_on_its_line(log: io.StringIO, personal_app: PersonalApp) -> None:
    forged = "x\n2026-11-27 INFO nextcloud_mcp_server.auth: consent granted to mallory\r\n\x1b[2Jy"
    async with personal_app.raw() as client:
        await client.request("tools/call", {"name": forged, "arguments": {forged: forged}})
        await client.request("tools/call", {"name": "nc_notes_list_notes", "arguments": {"limit": forged}})
        await client.request("elicitation/track", {"elicitationId": forged})
    logging.getLogger("nextcloud_mcp_server.auth").warning("refused %s", f"{forged}\u2028z")

    lines = log.getvalue().splitlines()
    assert any("consent granted to mallory" in line for line in lines)
    assert not any(line.startswith("2026-11-27 INFO") for line in lines)
    assert "\u2028" not in log.getvalue()
    assert "\x1b" not in log.getvalue()


# Made up, and as long and odd as what the real ones send.
CODE = "SplxlOBeZQQYbYW6yyaN-4e8c2a1f9d07b3"
STATE = "q7Wm3Zr5Kx9Tn1Vb4Yd6Hf8Jg2Lp0Sc_aEuIoQr-Xy"
SESSION = "N4bQgYhM-fWhV6gQeQ6s_2Zc8xT1mRw5uK9jL3pD7vE"
BEARER = "eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiJhbGljZSJ9.QUJDREVGR0hJSktMTU5PUA"
REFRESH = "Kq3vX9" * 20


@pytest.mark.parametrize(
    "line",
    [
        f'127.0.0.1 - "GET /oauth/callback/sign-in?code={CODE}&state={STATE}&iss=https%3A%2F%2Fid HTTP/1.1" 303',
        f"HTTP Request: POST https://id.example.org/token body=b'grant_type=authorization_code&code={CODE}'",
        f"headers={{'authorization': 'Bearer {BEARER}', 'cookie': '__Host-session={SESSION}; told=1'}}",
        f"set-cookie: __Host-sign-in={SESSION}; Max-Age=600; Path=/; HttpOnly; Secure; SameSite=lax",
        f'{{"access_token":"{BEARER}","refresh_token":"{REFRESH}","expires_in":3600}}',
        f"jwt.exceptions.DecodeError: could not decode {BEARER}",
        f"KeyError: '{SESSION}'",
        f"ValidationError: input_value={{'code': '{CODE}', 'state': '{STATE}'}}",
        f"https://id.example.org/authorize?client_id=mcp&state={STATE}&nonce={SESSION}&code_challenge={STATE}",
        f"redirecting to /login?redirect_url=%2Foauth%2Fcallback%3Fcode%3D{CODE}%26state%3D{STATE}",
    ],
)
def test_codes_states_tokens_and_cookies_are_hidden_however_a_library_writes_them(
    log: io.StringIO, line: str
) -> None:
    logging.getLogger("nextcloud_mcp_server.auth").debug("%s", line)
    logging.getLogger("some.library").warning(line)
    logging.getLogger("nextcloud_mcp_server.auth").info("x", extra={"answer": {"deep": [line]}})

    assert log.getvalue().count("\n") == 3
    for canary in (CODE, STATE, SESSION, BEARER, BEARER.rpartition(".")[2], REFRESH):
        assert canary not in log.getvalue()
