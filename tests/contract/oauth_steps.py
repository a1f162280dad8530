"""Steps about bearer tokens: the core app `oauth2`, and tokens of another issuer."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.contract.login_steps import take_cookies
from tests.contract.replay import Session
from tests.contract.steps import expect, in_sandbox

TOKEN = "/index.php/apps/oauth2/api/v1/token"
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_HTML = {"Accept": "text/html"}


async def client_registered(session: Session) -> None:
    """Register the client of the recordings as an administrator."""
    answer = await session.server.send(
        "POST",
        "/index.php/apps/oauth2/clients",
        person="admin",
        headers={"OCS-APIRequest": "true", "Content-Type": "application/json"},
        body=b'{"name":"rec oauth2","redirectUri":"http://client.test/callback"}',
    )
    client = expect(answer, 200).json()
    # The recordings replace every secret of one length alike, so each is bound with the name before it.
    for name in ("client_id", "clientIdentifier"):
        session.bind(f"{name}=<secret:64 chars>", f"{name}={client['clientId']}")
    session.bind("client_secret=<secret:64 chars>", f"client_secret={client['clientSecret']}")


async def _consent_request(session: Session, path: str, status: int) -> str:
    headers = {**_HTML, "Cookie": session.cookies}
    answer = await session.server.send("GET", session.translate(path), person=None, headers=headers)
    take_cookies(session, expect(answer, status))
    return answer.text


async def authorized(session: Session) -> None:
    """Open the authorization address."""
    path = "/index.php/apps/oauth2/authorize?response_type=code&client_id=<secret:64 chars>&state=s1"
    await _consent_request(session, path, 303)


async def picked(session: Session) -> None:
    """Open the page before the login; its state token stands for the recorded one."""
    path = "/login/flow?providedRedirectUri=&clientIdentifier=<secret:64 chars>"
    found = re.search(r"stateToken=([A-Za-z0-9]+)", unescape(await _consent_request(session, path, 200)))
    assert found is not None
    session.bind("stateToken=<secret:64 chars>", f"stateToken={found[1]}")


async def granted(session: Session) -> None:
    """Press the button; the code stands for the recorded one."""
    form = session.translate(
        "stateToken=<secret:64 chars>&clientIdentifier=<secret:64 chars>&requesttoken=<secret>"
    )
    headers = {**_FORM, **_HTML, "Cookie": session.cookies, "Origin": session.server.base}
    answer = await session.server.send(
        "POST", "/login/flow", person=None, headers=headers, body=form.encode()
    )
    query = parse_qs(urlsplit(str(expect(answer, 303).headers["Location"])).query)
    session.bind("code=<secret:128 chars>", f"code={query['code'][0]}")


async def _asked(session: Session, form: str) -> None:
    client = "client_id=<secret:64 chars>&client_secret=<secret:64 chars>"
    body = session.translate(f"{client}&{form}").encode()
    answer = await session.server.send("POST", TOKEN, person=None, headers=_FORM, body=body)
    tokens = expect(answer, 200).json()
    session.bearer = tokens["access_token"]
    session.bind("refresh_token=<secret:128 chars>", f"refresh_token={tokens['refresh_token']}")


async def exchanged(session: Session) -> None:
    """Exchange the code; the access token is used from here on."""
    await _asked(session, "grant_type=authorization_code&code=<secret:128 chars>")


async def token_as_password(session: Session) -> None:
    """Use alice's access token in place of her password."""
    session.passwords["alice"] = session.bearer


async def refreshed(session: Session) -> None:
    """Refresh, and continue with the tokens from before."""
    old, bound = session.bearer, dict(session.bound)
    await _asked(session, "grant_type=refresh_token&refresh_token=<secret:128 chars>")
    session.bearer, session.bound = old, bound


def _trust(sandbox: Sandbox) -> None:
    sandbox.state.check_bearer = {"a token of the issuer": "alice"}.get


async def trusted(session: Session) -> None:
    """Let the server accept a token of another issuer as alice's, and use it."""
    await in_sandbox(_trust)(session)
    session.bearer = "a token of the issuer"
