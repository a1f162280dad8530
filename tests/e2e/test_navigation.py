"""The helper that leads the other browser tests from page to page."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import sleep

import pytest
from playwright.sync_api import Browser

from tests.e2e.navigation import follow, visit
from tests.e2e.single_user_server import window_options

_PAGES = {
    "/first": ("text/html", "<h1>First</h1><a href='/next'>On</a>"),
    "/next": ("text/html", "<h1>Next</h1><link rel=stylesheet href='/late.css'>"),
    "/reloads": ("text/html", "<meta http-equiv=refresh content='0;url=/reloads'><h1>Reloads</h1>"),
    "/slow": ("text/html", "<h1>Slow</h1>"),
    "/late.css": ("text/css", "h1 { color: rgb(1, 2, 3) }"),
}


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, text = _PAGES.get(self.path, ("text/plain", ""))
        if self.path in {"/slow", "/late.css"}:
            sleep(0.5)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Write nothing."""


@pytest.fixture
def origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_page_without_scripts_is_awaited_until_its_late_style_is_there(
    chromium: Browser, origin: str
) -> None:
    window = chromium.new_context(**window_options(), java_script_enabled=False)
    page = window.new_page()
    page.goto(f"{origin}/first")

    follow(page.get_by_role("link", name="On"))

    assert page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(1, 2, 3)"
    window.close()


def test_a_page_that_reloads_by_itself_does_not_hinder_the_visit_of_another(
    chromium: Browser, origin: str
) -> None:
    window = chromium.new_context(**window_options())
    page = window.new_page()
    page.goto(f"{origin}/reloads")

    visit(page, f"{origin}/slow")

    assert page.url == f"{origin}/slow"
    assert page.locator("h1").inner_text() == "Slow"
    window.close()
