"""Steps about logins: app passwords, cookies, the pages of a login flow, blocked addresses."""

import re
from urllib.parse import quote, urlencode, urlsplit

import httpx2

from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.contract.replay import Session, Step
from tests.contract.steps import expect, in_sandbox

_FORM = "application/x-www-form-urlencoded"


def app_password(person: str = "bob") -> Step:
    """Create an app password and use it from here on."""

    async def step(session: Session) -> None:
        answer = await session.server.send(
            "GET",
            "/ocs/v2.php/core/getapppassword?format=json",
            person=person,
            headers={"OCS-APIRequest": "true"},
        )
        session.passwords[person] = expect(answer, 200).json()["ocs"]["data"]["apppassword"]

    return step


def app_password_deleted(person: str = "bob") -> Step:
    """Delete the app password in use."""

    async def step(session: Session) -> None:
        answer = await session.server.send(
            "DELETE",
            "/ocs/v2.php/core/apppassword?format=json",
            person=person,
            password=session.passwords[person],
            headers={"OCS-APIRequest": "true"},
        )
        expect(answer, 200)

    return step


def wrong_password(person: str = "alice") -> Step:
    """Use a wrong password for this user."""

    async def step(session: Session) -> None:
        session.passwords[person] = "wrong"

    return step


def cookies_of(path: str, *, ocs: bool = False, method: str = "GET", requests: int = 2) -> Step:
    """Store the cookies of alice after this request, repeated by a client that keeps cookies.

    With a password the first response only finds out whether the client returns cookies; the second opens the
    session.
    """

    async def step(session: Session) -> None:
        headers = {"OCS-APIRequest": "true"} if ocs else {}
        if method == "PROPFIND":
            headers["Depth"] = "0"
        for _ in range(requests):
            sent = {**headers, "Cookie": session.cookies} if session.cookies else headers
            answer = await session.server.send(
                method, path, password=session.passwords.get("alice"), headers=sent
            )
            take_cookies(session, expect(answer, 200, 207))

    return step


async def cookies_of_bearer(session: Session) -> None:
    """Store the cookies that alice gets with the first response to her app password as a bearer token."""
    headers = {"OCS-APIRequest": "true", "Authorization": f"Bearer {session.passwords['alice']}"}
    path = "/ocs/v2.php/cloud/user?format=json"
    take_cookies(session, expect(await session.server.send("GET", path, person=None, headers=headers), 200))


def take_cookies(session: Session, response: httpx2.Response) -> None:
    """Store the cookies of a response for the recorded request, as a browser does."""
    known = dict(pair.split("=", 1) for pair in session.cookies.split("; ") if pair)
    for item in response.headers.get_list("set-cookie"):
        name, _, value = item.partition(";")[0].partition("=")
        known[name] = value
        if value == "deleted":
            del known[name]
    session.cookies = "; ".join(f"{key}={value}" for key, value in known.items())


async def flow_started(session: Session) -> None:
    """Start a login flow; its tokens stand for the recorded secrets."""
    answer = expect(await session.server.send("POST", "/index.php/login/v2", person=None), 200).json()
    session.bind("<secret:128 chars>", answer["poll"]["token"])
    session.bind("<token:128 chars>", answer["poll"]["token"])
    session.login_path = urlsplit(str(answer["login"])).path


async def flow_landed(session: Session) -> None:
    """Open the login flow's address in a browser."""
    answer = await session.server.send("GET", session.login_path, person=None)
    take_cookies(session, expect(answer, 303))


async def flow_picked(session: Session) -> None:
    """Open the page that offers to log in; its state token stands for the recorded one."""
    answer = await session.server.send(
        "GET", "/login/v2/flow?user=&direct=0", person=None, headers={"Cookie": session.cookies}
    )
    found = re.search(r"stateToken=([A-Za-z0-9]+)", expect(answer, 200).text)
    assert found is not None
    take_cookies(session, answer)
    session.bind("<secret:64 chars>", found[1])


async def _request_token(session: Session) -> str:
    """Fetch the request token of a page's forms and bind it; the sandbox does not check it."""
    if session.server.sandbox is not None:
        return ""
    headers = {"Cookie": session.cookies} if session.cookies else {}
    answer = await session.server.send("GET", "/index.php/csrftoken", person=None, headers=headers)
    take_cookies(session, answer)
    token = str(expect(answer, 200).json()["token"])
    session.bind("requesttoken=<secret>", f"requesttoken={quote(token, safe='')}")
    session.bind("<requesttoken>", token)
    return token


def signed_in(person: str) -> Step:
    """Log a user in with this browser."""

    async def step(session: Session) -> None:
        form = {
            "user": person,
            "password": session.server.passwords[person],
            "redirect_url": "",
            "requesttoken": await _request_token(session),
        }
        headers = {"Content-Type": _FORM, "Origin": session.server.base}
        if session.cookies:
            headers["Cookie"] = session.cookies
        answer = await session.server.send(
            "POST", "/login", person=None, headers=headers, body=urlencode(form).encode()
        )
        take_cookies(session, expect(answer, 303))
        await _request_token(session)

    return step


async def flow_granted(session: Session) -> None:
    """Press the button that grants access."""
    form = session.translate("stateToken=<secret:64 chars>&requesttoken=<secret>")
    headers = {"Cookie": session.cookies, "Content-Type": _FORM, "Origin": session.server.base}
    expect(
        await session.server.send(
            "POST", "/login/v2/grant", person=None, headers=headers, body=form.encode()
        ),
        200,
    )


async def flow_polled(session: Session) -> None:
    """Fetch the result of the login flow."""
    form = session.translate("token=<secret:128 chars>")
    headers = {"Content-Type": _FORM}
    expect(
        await session.server.send("POST", "/login/v2/poll", person=None, headers=headers, body=form.encode()),
        200,
    )


async def at_login_address(session: Session) -> None:
    """Send the recorded request to the address of the login flow."""
    session.path = session.login_path


def disabled(uid: str) -> Step:
    """Disable an account."""

    def change(sandbox: Sandbox) -> None:
        sandbox.state.users[uid].enabled = False

    return in_sandbox(change)


def in_maintenance(sandbox: Sandbox) -> None:
    """Put the server into maintenance mode."""
    sandbox.state.maintenance = True


def bad_logins(count: int) -> Step:
    """Fail to log in `count` times."""

    async def step(session: Session) -> None:
        for _ in range(count):
            await session.server.send(
                "GET",
                "/ocs/v2.php/cloud/user?format=json",
                password="wrong",
                headers={"OCS-APIRequest": "true"},
            )

    return step
