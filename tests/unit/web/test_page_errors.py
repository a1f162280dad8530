"""What an error of a page becomes: a page for the browser, and a line in the log."""

import logging

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from nextcloud_mcp_server.errors import Unreachable
from nextcloud_mcp_server.web.middleware import PageErrors


async def answer_to(error: Exception) -> httpx2.Response:
    """Request a page that fails with this error."""

    async def fails(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise error

    transport = httpx2.ASGITransport(PageErrors(fails))
    async with httpx2.AsyncClient(transport=transport, base_url="http://mcp.test") as browser:
        return await browser.get("/account", headers={"Accept": "text/html", "Accept-Language": "en"})


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (RuntimeError("/srv/secret hunter2"), 500, "Something went wrong here"),
        (Unreachable("/srv/secret hunter2"), 502, "Nextcloud does not answer"),
    ],
)
async def test_a_page_says_what_its_kind_of_error_means_and_not_what_went_wrong_inside(
    error: Exception, status: int, sentence: str
) -> None:
    response = await answer_to(error)

    assert response.status_code == status
    assert sentence in response.text
    assert "hunter2" not in response.text


async def test_an_error_of_several_lines_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await answer_to(Unreachable("No answer.\r\n2026-11-27 INFO signed in: alice\u2028"))

    [record] = caplog.records
    assert len(record.getMessage().splitlines()) == 1
    assert "signed in: alice" in record.getMessage()
