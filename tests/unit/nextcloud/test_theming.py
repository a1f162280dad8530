"""What a Nextcloud calls itself; the answers as recorded from 32.0.1, and as `ThemingController` gives logos."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.errors import ServerFault
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.theming import MOST_LOGO_BYTES, KnownTheming, Theming
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.app import Sandbox

PNG = b"\x89PNG\r\n\x1a\n and the rest"
SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>'
URL = "https://cloud.example.org/nextcloud"

Answer = Callable[[httpx2.Request], httpx2.Response]


async def theming_of(transport: httpx2.AsyncBaseTransport, url: str = URL) -> Theming | None:
    async with open_pool(ca_bundle=None, user_agent="test", transport=transport) as pool:
        return await Nextcloud(NextcloudUrl.parse(url), pool).theming()


def telling(theming: object, logo: httpx2.Response | None = None, asked: list[str] | None = None) -> Answer:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.url.host == "cloud.example.org"
        assert "Authorization" not in request.headers
        if request.url.path.endswith("/capabilities"):
            data = {"version": {"string": "32.0.1"}, "capabilities": {"theming": theming}}
            return httpx2.Response(200, json={"ocs": {"meta": {"statuscode": 200}, "data": data}})
        if asked is not None:
            asked.append(request.url.raw_path.decode())
        return logo or httpx2.Response(200, headers={"Content-Type": "image/png"}, content=PNG)

    return answer


async def test_name_colour_and_logo_are_read_without_a_credential() -> None:
    sandbox = Sandbox()
    sandbox.state.name = "Family Cloud"

    theming = await theming_of(httpx2.ASGITransport(sandbox.app), "http://cloud.example.org")

    assert theming is not None
    assert (theming.name, theming.color) == ("Family Cloud", "#00679e")
    assert theming.logo is not None
    assert (theming.logo.media_type, theming.logo.content) == sandbox.state.logo


@pytest.mark.parametrize(
    ("address", "path"),
    [
        (f"{URL}/apps/theming/image/logo?useSvg=1&v=7", "/nextcloud/apps/theming/image/logo?useSvg=1&v=7"),
        # A proxy in front of Nextcloud, or a forged answer: no other host is asked.
        ("http://127.0.0.1:9000/latest/meta-data", "/nextcloud/latest/meta-data"),
        ("//evil.example/x.png", "/nextcloud/x.png"),
    ],
)
async def test_the_logo_is_fetched_from_the_configured_nextcloud_alone(address: str, path: str) -> None:
    asked: list[str] = []
    theming = {"name": "Family", "logo": address}

    found = await theming_of(httpx2.MockTransport(telling(theming, asked=asked)))

    assert asked == [path]
    assert found is not None
    assert found.logo is not None


@pytest.mark.parametrize(
    "logo",
    [
        httpx2.Response(200, headers={"Content-Type": "text/html"}, content=b"<html>"),
        httpx2.Response(200, headers={"Content-Type": "image/png"}, content=b"<html>"),
        httpx2.Response(200, headers={"Content-Type": "image/svg+xml"}, content=b"<html>"),
        httpx2.Response(200, headers={"Content-Type": "image/png"}, content=PNG + b"x" * MOST_LOGO_BYTES),
        httpx2.Response(302, headers={"Location": "https://evil.example/x.png"}),
        httpx2.Response(404),
    ],
)
async def test_what_is_no_image_of_its_type_is_no_logo(logo: httpx2.Response) -> None:
    theming = {"name": "Family", "color": "#123456", "logo": f"{URL}/logo"}

    found = await theming_of(httpx2.MockTransport(telling(theming, logo)))

    assert found == Theming("Family", "#123456", None)


async def test_a_drawing_is_a_logo() -> None:
    drawn = httpx2.Response(200, headers={"Content-Type": "image/svg+xml"}, content=SVG)

    found = await theming_of(httpx2.MockTransport(telling({"logo": f"{URL}/logo"}, drawn)))

    assert found is not None
    assert found.logo is not None
    assert found.logo.file_name.endswith(".svg")


@pytest.mark.parametrize("address", ["", "https://[broken", "/../../etc", 7])
async def test_an_address_that_is_none_is_not_fetched(address: object) -> None:
    asked: list[str] = []

    found = await theming_of(httpx2.MockTransport(telling({"name": 7, "logo": address}, asked=asked)))

    assert asked == []
    assert found == Theming("", "#00679e", None)


@pytest.mark.parametrize("color", ["red", "#12345", '#123456" onload="x', "url(https://evil.example/)"])
async def test_a_colour_of_another_form_is_replaced(color: str) -> None:
    found = await theming_of(httpx2.MockTransport(telling({"color": color})))

    assert found is not None
    assert found.color == "#00679e"


@pytest.mark.parametrize("theming", [None, [], "x"])
async def test_a_nextcloud_without_the_app_has_no_theming(theming: object) -> None:
    assert await theming_of(httpx2.MockTransport(telling(theming))) is None


async def test_another_answer_is_an_error() -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=json.dumps({"ocs": 7}))

    with pytest.raises(ServerFault):
        await theming_of(httpx2.MockTransport(answer))


class Times:
    """Answers of a Nextcloud, in turn; an exception is raised."""

    def __init__(self, *answers: Theming | Exception | None) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self) -> Theming | None:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def running(fetch: Times) -> AsyncGenerator[KnownTheming]:
    known = KnownTheming(fetch)
    async with anyio.create_task_group() as group:
        group.start_soon(known.run)
        yield known
        group.cancel_scope.cancel()


async def test_the_first_page_has_it_and_later_ones_ask_no_more() -> None:
    family = Theming("Family", "#123456", None)

    async with running(times := Times(family)) as known, anyio.create_task_group():
        with anyio.fail_after(60):
            # The wait is short, and a busy computer may need more than one.
            while await known.wanted() is None:
                pass
            assert await known.wanted() == family

    assert times.asked == 1


async def test_without_a_page_nothing_is_asked() -> None:
    async with running(times := Times()):
        await anyio.wait_all_tasks_blocked()

    assert times.asked == 0


async def test_a_page_comes_without_it_while_nextcloud_is_away_and_the_next_does_not_ask_at_once() -> None:
    async with running(times := Times(ServerFault("away"))) as known:
        assert await known.wanted() is None
        await anyio.wait_all_tasks_blocked()
        assert await known.wanted() is None
        await anyio.wait_all_tasks_blocked()

    assert times.asked == 1


async def test_it_is_read_again_after_a_time_and_the_old_one_stays_where_that_fails() -> None:
    family = Theming("Family", "#123456", None)

    async with running(times := Times(family, ServerFault("away"))) as known:
        await known.wanted()
        await anyio.wait_all_tasks_blocked()
        known.forget()
        assert await known.wanted() == family
        await anyio.wait_all_tasks_blocked()
        assert await known.wanted() == family

    assert times.asked == 2


async def test_a_page_never_waits_for_a_nextcloud_that_does_not_answer() -> None:
    async def hang() -> Theming | None:
        await anyio.sleep_forever()
        raise AssertionError

    known = KnownTheming(hang)
    async with anyio.create_task_group() as group:
        group.start_soon(known.run)
        with anyio.fail_after(60):
            assert await known.wanted() is None
        group.cancel_scope.cancel()
