from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.state import User


@dataclass
class Clock:
    """A clock that tests move."""

    now: datetime = datetime(2026, 11, 27, 21, 6, 47, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def advance(clock: Clock) -> Callable[[timedelta], None]:
    def _advance(span: timedelta) -> None:
        clock.now += span

    return _advance


@pytest.fixture
def sandbox(clock: Clock) -> Sandbox:
    # These tests expect what was recorded from 32; test_profiles.py has the differences of newer versions.
    made = Sandbox(clock=clock, version="32")
    alice = User("alice", "Alice Example", "alice", email="alice@example.test", groups=("team",))
    made.state.add_user(alice)
    made.add_user("bob", display_name="Bob Builder")
    return made


@pytest.fixture
def connect() -> Callable[..., httpx2.AsyncClient]:
    def _connect(
        sandbox: Sandbox, *, auth: tuple[str, str] | None = None, cookies: bool = False
    ) -> httpx2.AsyncClient:
        jar = CookieJar() if cookies else CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        return httpx2.AsyncClient(
            transport=httpx2.ASGITransport(sandbox.app),
            base_url="http://nextcloud.test",
            auth=auth,
            cookies=jar,
            headers={"Accept": "application/json"},
        )

    return _connect


@pytest.fixture
async def alice(
    sandbox: Sandbox, connect: Callable[..., httpx2.AsyncClient]
) -> AsyncGenerator[httpx2.AsyncClient]:
    async with connect(sandbox, auth=("alice", "alice")) as client:
        yield client


@pytest.fixture
async def bob(
    sandbox: Sandbox, connect: Callable[..., httpx2.AsyncClient]
) -> AsyncGenerator[httpx2.AsyncClient]:
    async with connect(sandbox, auth=("bob", "bob")) as client:
        yield client


@pytest.fixture
async def anonymous(
    sandbox: Sandbox, connect: Callable[..., httpx2.AsyncClient]
) -> AsyncGenerator[httpx2.AsyncClient]:
    async with connect(sandbox) as client:
        yield client


@pytest.fixture
async def browser(
    sandbox: Sandbox, connect: Callable[..., httpx2.AsyncClient]
) -> AsyncGenerator[httpx2.AsyncClient]:
    async with connect(sandbox, cookies=True) as client:
        client.headers["Accept"] = "text/html"
        yield client
