"""When the port of the consent page opens and closes; the pages are in tests/integration/test_loopback_pages.py."""

import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.auth.consent.service import ConsentService
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server.loopback_pages import LoopbackPages


async def no_service() -> ConsentService:
    raise NotImplementedError


class Requests:
    """Which consent requests have ended, as the database says."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.looks = 0
        self.asked: list[str] = []
        self.trouble: Exception | None = None

    async def finished(self, elicitation_ids: Sequence[str]) -> list[str]:
        self.looks += 1
        self.asked = sorted(elicitation_ids)
        if self.trouble is not None:
            raise self.trouble
        return [one for one in elicitation_ids if one in self.ended]

    async def look(self) -> None:
        """Wait until it was looked up again."""
        looks = self.looks
        with anyio.fail_after(60):
            while self.looks < looks + 2:  # noqa: ASYNC110 - the pages look without an event
                await anyio.sleep(0.01)


@asynccontextmanager
async def running(pages: LoopbackPages, requests: Requests) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(partial(pages.run, no_service, keys=lambda: [b"k" * 32], finished=requests.finished))
        yield
        group.cancel_scope.cancel()


async def answers(url: str) -> bool:
    """Tell whether something listens; what is asked for is nothing that needs the service."""
    parts = urlsplit(url)
    async with httpx2.AsyncClient() as http:
        try:
            await http.get(f"http://{parts.netloc}/")
        except httpx2.TransportError:
            # Refused, or closed at this moment.
            return False
    return True


async def until_closed(url: str) -> None:
    with anyio.fail_after(60):
        while await answers(url):  # noqa: ASYNC110 - a socket closes without an event
            await anyio.sleep(0.01)


@pytest.fixture
def requests() -> Requests:
    return Requests()


@pytest.fixture
def pages() -> LoopbackPages:
    return LoopbackPages(look_seconds=0.01, linger_seconds=0)


async def test_nothing_listens_before_a_link_is_made(
    pages: LoopbackPages, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> socket.socket:
        raise NotImplementedError

    with monkeypatch.context() as patch:
        patch.setattr(socket, "create_server", never)
        async with running(pages, requests):
            await anyio.sleep(0.05)

    assert requests.looks == 0


async def test_the_port_is_open_while_one_of_its_consent_requests_is(
    pages: LoopbackPages, requests: Requests
) -> None:
    async with running(pages, requests):
        first, second = pages.page_url("first"), pages.page_url("second")
        requests.ended = {"first"}
        await requests.look()
        still_open = await answers(second)
        requests.ended = {"first", "second"}
        await until_closed(second)

    assert still_open
    assert urlsplit(first).netloc == urlsplit(second).netloc


async def test_a_client_that_asks_over_and_over_leaves_nothing_behind(
    pages: LoopbackPages, requests: Requests
) -> None:
    # Each question makes an id for a new request, also where the open one is used again.
    requests.ended = {f"unused {number}" for number in range(500)}
    async with running(pages, requests):
        for number in range(500):
            pages.page_url(f"unused {number}")
            pages.page_url("open")
        await requests.look()

        assert requests.asked == ["open"]


async def test_the_result_can_be_read_for_a_while(requests: Requests) -> None:
    pages = LoopbackPages(look_seconds=0.01, linger_seconds=600)
    async with running(pages, requests):
        url = pages.page_url("one")
        requests.ended = {"one"}
        await requests.look()

        assert await answers(url)
    assert not await answers(url)


async def test_a_new_consent_request_keeps_the_port_open_or_gets_another_one(
    pages: LoopbackPages, requests: Requests
) -> None:
    async with running(pages, requests):
        old = pages.page_url("old")
        requests.ended = {"old"}
        await until_closed(old)
        new = pages.page_url("new")
        await requests.look()

        assert await answers(new)
    assert urlsplit(old).path != urlsplit(new).path


async def test_a_database_that_fails_once_does_not_close_the_page(
    pages: LoopbackPages, requests: Requests, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(pages, requests):
        url = pages.page_url("one")
        requests.ended, requests.trouble = {"one"}, OSError("busy")
        await requests.look()
        still_open = await answers(url)
        requests.trouble = None
        await until_closed(url)

    assert still_open
    assert "trying again" in caplog.text


async def test_the_port_is_this_computer_s_alone(pages: LoopbackPages) -> None:
    url = pages.page_url("one")
    pages.close()

    assert urlsplit(url).hostname == "127.0.0.1"
    assert urlsplit(url).query == "elicitationId=one"


async def test_a_page_is_gone_when_nothing_listens_at_its_port(
    pages: LoopbackPages, requests: Requests
) -> None:
    async with running(pages, requests):
        url = pages.page_url("one")
        alive = await pages.is_gone(url)

    assert not alive
    assert await pages.is_gone(url)
    assert not await pages.is_gone("https://mcp.example.org/oauth/provision?elicitationId=one")
    assert not await pages.is_gone("http://127.0.0.1/oauth/provision?elicitationId=one")


def test_a_computer_that_gives_no_port_is_told_what_to_do(
    pages: LoopbackPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> socket.socket:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "create_server", full)
        with pytest.raises(ConfigurationError, match=r"Too many open files.*CONSENT_PAGE=nextcloud"):
            pages.page_url("one")
