import subprocess
import sys

import httpx2
import pytest
from starlette.applications import Starlette

from nextcloud_mcp_server.web.pages import stylesheet
from nextcloud_mcp_server.web.routes import routes
from tests.single_user_pages import SingleUserPages


async def test_the_first_page_says_what_runs_here_and_how_to_connect(browser: httpx2.AsyncClient) -> None:
    response = await browser.get("/")

    assert response.status_code == 200
    assert "nextcloud-mcp-server config claude-code --http --port 8000<" in response.text
    assert "set-cookie" not in response.headers


async def test_the_first_page_of_a_server_on_the_sandbox_names_the_sandbox(consent: SingleUserPages) -> None:
    app = Starlette(routes=routes(consent.ready, csrf_keys=lambda: [b"k" * 32], sandbox=True))

    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1"
    ) as browser:
        response = await browser.get("/")

    assert "nextcloud-mcp-server config claude-code --http --sandbox<" in response.text


async def test_the_health_check_sends_no_request(
    browser: httpx2.AsyncClient, consent: SingleUserPages
) -> None:
    response = await browser.get("/healthz")

    assert response.json() == {"status": "ok"}
    assert consent.statements.seen == []


async def test_the_stylesheet_may_be_kept_because_its_name_changes_with_it(
    browser: httpx2.AsyncClient,
) -> None:
    response = await browser.get(f"/static/{stylesheet()[0]}")

    assert response.headers["content-type"] == "text/css; charset=utf-8"
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert len(response.content) < 12_000


async def test_the_icon_is_where_programs_look_for_it(browser: httpx2.AsyncClient) -> None:
    response = await browser.get("/favicon.ico")

    assert (response.status_code, response.headers["content-type"]) == (200, "image/x-icon")
    assert response.headers["cache-control"] == "public, max-age=86400"
    # An icon file with one image (the reserved word, the type, the count), which is a PNG.
    assert response.content.startswith(b"\0\0\1\0\1\0")
    assert response.content[22:].startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(
    "path", ["/nothing", "/oauth/", "/healthz/more", "/static/style.css", "/static/..%2fpages.py"]
)
async def test_an_unknown_path_gets_a_small_page(browser: httpx2.AsyncClient, path: str) -> None:
    response = await browser.get(path)

    assert response.status_code == 404
    assert "There is nothing here" in response.text


async def test_a_program_gets_json_for_an_unknown_path(browser: httpx2.AsyncClient) -> None:
    response = await browser.get(
        "/.well-known/oauth-protected-resource", headers={"Accept": "application/json"}
    )

    assert (response.status_code, response.json()) == (404, {"error": "not_found"})


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/oauth/provision", "GET, HEAD, POST"),
        ("POST", "/", "GET, HEAD"),
        ("GET", "/oauth/cancel", "POST"),
    ],
)
async def test_another_method_is_not_allowed_and_the_right_ones_are_named(
    browser: httpx2.AsyncClient, method: str, path: str, allowed: str
) -> None:
    response = await browser.request(method, path)

    assert (response.status_code, response.headers["allow"]) == (405, allowed)


@pytest.mark.process
def test_loading_the_routes_loads_neither_the_template_engine_nor_the_checks_of_tokens() -> None:
    code = "import sys, nextcloud_mcp_server.web.routes; print({'jinja2', 'jwt'} & set(sys.modules))"

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "set()"
