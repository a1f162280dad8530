"""What comes to a callback is in no log of ours, at no level: neither code and state nor anything else of the query."""

import io
import logging
import re
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from nextcloud_mcp_server import logs
from tests.callback_results import shown
from tests.integration.builtin_app import BuiltinApp, open_builtin_app
from tests.multi_user_pages import MultiUserPages, browser_of, sign_in

#: Words, so that they pass everything that hides what looks like a secret.
CANARIES = ("canary-of-the-query", "canaryofthecode", "canaryofthestate")
QUERY = {"note": CANARIES[0], "code": CANARIES[1], "state": CANARIES[2]}


@pytest.fixture
def log() -> Generator[io.StringIO]:
    """Everything that is logged, as the server would write it, with our own lines at DEBUG."""
    root, ours = logging.getLogger(), logging.getLogger("nextcloud_mcp_server")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    stream = io.StringIO()
    logs.set_up("debug", stream=stream)
    yield stream
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path) as opened:
        yield opened


def written(log: io.StringIO, streams: pytest.CaptureFixture[str]) -> str:
    logging.getLogger("nextcloud_mcp_server.auth").debug("the log is alive")
    out, err = streams.readouterr()
    text = log.getvalue() + out + err
    assert "the log is alive" in text
    return text


@pytest.mark.parametrize("state", ["c-", "s-", ""])
@pytest.mark.parametrize(
    "change", [{}, {"error": CANARIES[0]}, {"iss": f"https://{CANARIES[0]}"}, {"code": "x" * 9_000}]
)
async def test_builtin_writes_nothing_of_a_callbacks_query(
    log: io.StringIO,
    builtin_app: BuiltinApp,
    capfd: pytest.CaptureFixture[str],
    state: str,
    change: dict[str, str],
) -> None:
    """Over HTTP, so that the web server's own log is heard, too."""
    query = {**QUERY, "state": state + QUERY["state"], **change}
    async with httpx2.AsyncClient(timeout=60, headers={"Accept": "text/html"}) as browser:
        for path in ("nextcloud", "unknown"):
            answer = await browser.get(f"{builtin_app.url}/oauth/callback/{path}?{urlencode(query)}")
            if path == "nextcloud":
                await shown(browser, answer)

    text = written(log, capfd)
    assert "page failed" in text
    assert not [canary for canary in CANARIES if canary in text]


async def test_builtin_writes_nothing_of_a_code_that_it_ends(
    log: io.StringIO, builtin_app: BuiltinApp, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nextcloud is asked here, and away: what it is asked is in no line either."""
    async with httpx2.AsyncClient(timeout=60) as http:
        client_id = str((await builtin_app.register(http))["client_id"])
        page = await http.get(builtin_app.authorize_url(client_id), headers={"Accept": "text/html"})
    state = await _begun(builtin_app, page)
    builtin_app.sandbox.faults.status(503, area="oauth2", times=9)

    async with httpx2.AsyncClient(timeout=60, headers={"Accept": "text/html"}) as victim:
        query = {"state": state, "code": CANARIES[1] * 8, "note": CANARIES[0]}
        ended = await shown(
            victim, await victim.get(f"{builtin_app.url}/oauth/callback/nextcloud?{urlencode(query)}")
        )

    text = written(log, capfd)
    assert "began in another browser" in ended.text
    assert not [canary for canary in (*CANARIES, state) if canary in text]


async def _begun(builtin_app: BuiltinApp, page: httpx2.Response) -> str:
    """Press Allow in the browser that the page was shown in; the state that Nextcloud is given."""
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.text))
    async with httpx2.AsyncClient(timeout=60, cookies=page.cookies) as browser:
        sent = await browser.post(
            f"{builtin_app.url}/authorize",
            data={**fields, "answer": "allow", "allow.notes": "read"},
            headers={"Accept": "text/html", "Sec-Fetch-Site": "same-origin"},
        )
    return parse_qs(urlsplit(sent.headers["Refresh"].partition("url=")[2]).query)["state"][0]


@pytest.mark.parametrize("callback", ["sign-in", "nextcloud"])
@pytest.mark.parametrize("fault", [None, RuntimeError("a bug")])
@pytest.mark.parametrize("signed_in", [False, True])
async def test_oidc_writes_nothing_of_a_callbacks_query(
    *,
    consent_service: MultiUserPages,
    log: io.StringIO,
    capfd: pytest.CaptureFixture[str],
    callback: str,
    fault: Exception | None,
    signed_in: bool,
) -> None:
    """Also where something fails that no one planned, which writes a trace."""
    async with browser_of(consent_service) as browser:
        if signed_in:
            await sign_in(browser, consent_service)
        consent_service.statements.fault = fault
        await shown(browser, await browser.get(f"/oauth/callback/{callback}", params=QUERY))

    text = written(log, capfd)
    assert "page failed" in text
    assert not [canary for canary in CANARIES if canary in text]
