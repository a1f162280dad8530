"""What goes out to Nextcloud, and what is taken from its answers."""

import gzip
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from http.cookies import SimpleCookie
from pathlib import Path

import anyio
import httpx2
import pytest
import stamina
from pydantic import SecretStr

from nextcloud_mcp_server import nextcloud
from nextcloud_mcp_server.errors import (
    CredentialRejected,
    ElicitationRequired,
    NextcloudError,
    NotNextcloud,
    ProgramRefused,
    Throttled,
    TimedOut,
    TooLarge,
    Unavailable,
    WrongAccount,
)
from nextcloud_mcp_server.nextcloud.account import Account, Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.login_pages import LoginPages
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from tests.auth_fixtures import READ, Process, ProcessHost

BASE = "https://cloud.example.org/nextcloud"

Handler = Callable[[httpx2.Request], httpx2.Response]


class Wire:
    """A Nextcloud that answers as a handler says, and keeps what was asked."""

    def __init__(self, handler: Handler) -> None:
        self.asked: list[httpx2.Request] = []
        self._handler = handler
        pool = open_pool(ca_bundle=None, user_agent="test", transport=httpx2.MockTransport(self._answer))
        credential = BasicCredential("alice@example.org", SecretStr("app-password"))
        self.http = NextcloudHttp(pool, NextcloudUrl.parse(BASE), credential=credential, uid="alice")
        self.nextcloud = Nextcloud(NextcloudUrl.parse(BASE), pool)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return self._handler(request)


def always(status: int, **options: object) -> Handler:
    return lambda _: httpx2.Response(status, **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_pauses() -> Generator[None]:
    with stamina.set_testing(True, attempts=2, cap=True):
        yield


async def test_no_cookie_is_ever_kept_or_sent(harness: ProcessHost, process: Process) -> None:
    """A session cookie beats Authorization: kept from Alice's answer it would act as Alice for Bob."""
    people = harness.sandbox.state.users

    def account(name: str) -> Account:
        made = harness.sandbox.state.new_app_password(people[name])
        return process.nextcloud.account(BasicCredential(name, SecretStr(made.secret)), uid=name)

    alice, bob = account("alice"), account("bob")
    seen = [(await one.user.get()).uid for one in (alice, bob, alice, bob)]

    assert seen == ["alice", "bob", "alice", "bob"]
    assert harness.sandbox.state.sessions
    assert not any("cookie" in request.headers for request in harness.network.asked)


async def test_that_sandbox_would_have_mixed_them_up_with_cookies(harness: ProcessHost) -> None:
    """The check above is worth something only where cookies do harm."""
    people = harness.sandbox.state.users
    alice, bob = (harness.sandbox.state.new_app_password(people[name]) for name in ("alice", "bob"))
    url = "http://nextcloud.test/ocs/v2.php/cloud/user?format=json"
    headers = {"OCS-APIRequest": "true"}
    transport = httpx2.ASGITransport(harness.sandbox.app)
    async with httpx2.AsyncClient(transport=transport, headers=headers) as careless:
        await careless.get(url, auth=("alice", alice.secret))
        answer = await careless.get(url, auth=("bob", bob.secret))

    assert answer.json()["ocs"]["data"]["id"] == "alice"


async def test_the_one_exchange_with_cookies_has_no_credential_and_leaves_nothing() -> None:
    """Nextcloud keeps a started login flow in its session (ClientFlowLoginV2Controller.php, 32.0.1)."""
    cookies = [("Set-Cookie", "nc_session=of-the-flow; path=/"), ("Set-Cookie", "passphrase=p; path=/")]
    pages = [
        httpx2.Response(303, headers=cookies),
        httpx2.Response(403, headers=cookies, html="Please use original client"),
        httpx2.Response(403, headers=cookies, html="Your login token is invalid"),
        httpx2.Response(200, headers=cookies, json={}),
    ]
    wire = Wire(lambda _: pages.pop(0))

    with pytest.raises(ProgramRefused):
        await wire.nextcloud.login_pages.check(SecretStr(f"{BASE}/index.php/login/v2/flow/token"))
    exchange = list(wire.asked)
    await wire.http.request("GET", "/ocs/x")

    sent = [request.headers.get("cookie") for request in wire.asked]
    assert sent == [None, "nc_session=of-the-flow; passphrase=p", None, None]
    assert not any("authorization" in request.headers for request in exchange)
    assert "authorization" in wire.asked[-1].headers


def test_no_other_module_sends_cookies_to_nextcloud() -> None:
    """And that one is given no credential that it could send."""
    folder = Path(nextcloud.__file__).parent
    sources = {file.name: file.read_text(encoding="utf-8") for file in folder.rglob("*.py")}

    assert {name for name, source in sources.items() if '"Cookie"' in source} == {"login_pages.py"}
    assert set(inspect.signature(LoginPages).parameters) == {"pool", "base", "public_url"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "http://cloud.example.org/nextcloud/status.php",
        "https://cloud.example.org:8443/nextcloud/ocs/x",
        "https://cloud.example.org.evil.example/nextcloud/ocs/x",
        "//evil.example/nextcloud/ocs/x",
        "https://cloud.example.org@evil.example/nextcloud/ocs/x",
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1/",
        "file:///etc/passwd",
    ],
)
async def test_a_redirect_to_another_place_is_not_followed(status: int, target: str) -> None:
    wire = Wire(always(status, headers={"Location": target}))

    for method in ("GET", "PUT"):
        with pytest.raises(NotNextcloud):
            await wire.http.request(method, "/ocs/x")

    assert {request.url.host for request in wire.asked} == {"cloud.example.org"}
    assert len(wire.asked) == 2


@pytest.mark.parametrize(
    "answered",
    [
        "https://evil.example/nextcloud/login/v2/flow/abc",
        "https://evil.example/login/v2/flow/abc",
        "https://169.254.169.254/nextcloud/login/v2/flow/abc",
        "https://cloud.example.org:8443/nextcloud/login/v2/flow/abc",
    ],
)
async def test_addresses_in_nextclouds_answers_are_put_onto_the_configured_one(answered: str) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/poll"):
            return httpx2.Response(404, json=[])
        poll = {"token": "t" * 128, "endpoint": "https://evil.example/login/v2/poll"}
        return httpx2.Response(200, json={"poll": poll, "login": answered})

    wire = Wire(answer)
    started = await wire.nextcloud.login.start()
    await wire.nextcloud.login.poll(started.poll_token)

    assert started.login_url.get_secret_value() == f"{BASE}/login/v2/flow/abc"
    assert {request.url.host for request in wire.asked} == {"cloud.example.org"}


async def test_a_revoked_credential_is_refused_twice_and_not_sent_again(
    harness: ProcessHost, process: Process
) -> None:
    harness.sandbox.state.app_passwords.pop(await harness.connect(process))
    refused = harness.refusals()
    ended: list[type[Exception]] = []

    for _ in range(50):
        try:
            opened = await process.accounts.open(harness.caller, READ)
        except ElicitationRequired:
            ended.append(ElicitationRequired)
            continue
        with pytest.raises(CredentialRejected):
            await opened.account.user.get()
        await process.accounts.reject(harness.caller, opened)
        ended.append(CredentialRejected)

    # The request, and the probe that confirms what it was told.
    assert harness.refusals() - refused == 2
    assert ended == [CredentialRejected, *[ElicitationRequired] * 49]


@pytest.mark.parametrize(("status", "expected"), [(429, Throttled), (503, Unavailable)])
async def test_a_busy_nextcloud_is_not_stormed_and_its_wish_is_passed_on(
    status: int, expected: type[NextcloudError]
) -> None:
    wire = Wire(always(status, headers={"Retry-After": "90"}))

    with pytest.raises(expected, match="90 seconds"):
        await wire.http.request("GET", "/ocs/x")

    assert len(wire.asked) == 1


async def test_a_gzip_bomb_is_cut_off() -> None:
    bomb = gzip.compress(b"\0" * 200_000_000)
    wire = Wire(always(200, headers={"Content-Encoding": "gzip"}, stream=Body(bomb, 65_536)))

    with pytest.raises(TooLarge):
        await wire.http.request("GET", "/ocs/x", max_bytes=1_000_000)


class Body(httpx2.AsyncByteStream):
    """A body in pieces; without an end where `pieces` is None."""

    def __init__(self, data: bytes, size: int, *, endless: bool = False, slow: bool = False) -> None:
        self._data, self._size, self._endless, self._slow = data, size, endless, slow
        self.sent = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            for start in range(0, len(self._data), self._size):
                self.sent += self._size
                yield self._data[start : start + self._size]
                if self._slow:
                    await anyio.sleep(0.01)
            if not self._endless:
                return


async def test_a_body_without_an_end_is_cut_off() -> None:
    body = Body(b"x" * 65_536, 65_536, endless=True)
    wire = Wire(lambda _: httpx2.Response(200, stream=body))

    with anyio.fail_after(60), pytest.raises(TooLarge):
        await wire.http.request("GET", "/ocs/x", max_bytes=1_000_000)

    assert body.sent < 2_000_000


async def test_a_body_that_trickles_in_runs_into_the_time_limit() -> None:
    wire = Wire(lambda _: httpx2.Response(200, stream=Body(b"x", 1, endless=True, slow=True)))

    with anyio.fail_after(60), pytest.raises(TimedOut):
        await wire.http.request("GET", "/ocs/x", timeout_seconds=0.1)


async def test_an_answer_for_another_user_is_thrown_away() -> None:
    wire = Wire(always(200, headers={"X-User-Id": "bob"}, content=b"the note of bob"))

    with pytest.raises(WrongAccount) as caught:
        await wire.http.request("GET", "/ocs/x")

    assert "the note of bob" not in str(caught.value)


async def test_what_is_set_in_answers_never_reaches_the_next_request() -> None:
    jar = SimpleCookie({"nc_session": "stolen"})
    wire = Wire(always(200, headers={"Set-Cookie": jar.output(header="").strip()}, json={}))

    for _ in range(3):
        await wire.http.request("GET", "/ocs/x")

    assert not any("cookie" in request.headers for request in wire.asked)
