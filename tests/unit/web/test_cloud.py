"""Which Nextcloud the pages show, and its logo."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
import pytest

from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.nextcloud.theming import Theming
from nextcloud_mcp_server.web.cloud import ShowsCloud
from tests.cloud_fixtures import KnownCloud
from tests.single_user_pages import ORIGIN, SingleUserPages, application

LOGO = Picture("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'/>")


@asynccontextmanager
async def browsing(
    theming: Theming | None, pages: SingleUserPages | None = None
) -> AsyncGenerator[tuple[httpx2.AsyncClient, KnownCloud]]:
    known = KnownCloud(theming)
    app = ShowsCloud(application(pages), known, host="cloud.example.org")
    headers = {"Accept": "text/html", "Accept-Language": "en"}
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url=ORIGIN, headers=headers
    ) as client:
        yield client, known


@pytest.mark.parametrize("path", ["/", "/nothing", "/oauth/provision"])
async def test_every_page_names_the_cloud_beside_its_host(path: str) -> None:
    async with browsing(Theming("Family Cloud", "#123456", LOGO)) as (browser, _):
        text = (await browser.get(path)).text

    assert "<strong><bdi>Family Cloud</bdi></strong> <small><bdi>cloud.example.org</bdi></small>" in text
    assert 'fill="#123456"' in text
    assert f'<image href="/static/logo.{LOGO.file_name}"' in text


async def test_the_page_that_asks_has_the_host_in_its_heading_and_the_name_among_the_facts(
    single_user_pages: SingleUserPages,
) -> None:
    asked = await single_user_pages.open()

    async with browsing(Theming("Family Cloud", "#123456", LOGO), single_user_pages) as (browser, _):
        text = (await browser.get(f"/oauth/provision?elicitationId={asked}")).text

    assert "<strong><bdi>cloud.example.org</bdi></strong></h1>" in text
    assert "<dt>Nextcloud</dt> <dd><bdi>Family Cloud</bdi></dd>" in text
    assert text.count("<image ") == 1


async def test_a_name_is_no_way_into_the_page() -> None:
    name = "<script>alert(1)</script>\u202e" + "long " * 40

    async with browsing(Theming(name, "#123456", None)) as (browser, _):
        text = (await browser.get("/")).text

    assert "<script>" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;long" in text
    assert "<image " not in text


async def test_without_theming_the_page_has_no_such_line() -> None:
    async with browsing(None) as (browser, _):
        text = (await browser.get("/")).text

    assert 'class="cloud"' not in text


async def test_the_logo_comes_from_this_server_and_can_be_no_page_of_it() -> None:
    async with browsing(Theming("Family", "#123456", LOGO)) as (browser, known):
        logo = await browser.get(f"/static/logo.{LOGO.file_name}", headers={"Accept": "image/*"})

    assert (logo.status_code, logo.content) == (200, LOGO.content)
    assert logo.headers["Content-Type"] == "image/svg+xml"
    assert logo.headers["Content-Disposition"] == "attachment"
    assert logo.headers["Content-Security-Policy"].startswith("default-src 'none';")
    assert logo.headers["X-Content-Type-Options"] == "nosniff"
    assert logo.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert known.wishes == 0


@pytest.mark.parametrize("theming", [None, Theming("Family", "#123456", None)])
async def test_there_is_no_logo_where_there_is_none(theming: Theming | None) -> None:
    async with browsing(theming) as (browser, _):
        assert (await browser.get(f"/static/logo.{LOGO.file_name}")).status_code == 404


async def test_a_former_logo_is_gone() -> None:
    async with browsing(Theming("Family", "#123456", LOGO)) as (browser, _):
        assert (await browser.get("/static/logo.0123456789abcdef.png")).status_code == 404


async def test_only_a_page_makes_the_server_ask() -> None:
    async with browsing(None) as (browser, known):
        await browser.get("/healthz", headers={"Accept": "*/*"})
        assert known.wishes == 0
        await browser.get("/")

    assert known.wishes == 1
