import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import Maintenance, NextcloudError, ServerFault
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.login_flow import LoginFlowClient
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl


class Nextcloud:
    """Answers each path with what it was told, and keeps the requests."""

    def __init__(self, base: str, public: str | None = None) -> None:
        self.asked: list[httpx2.Request] = []
        self.answer = httpx2.Response(404, json=[])
        url, public_url = NextcloudUrl.parse(base), NextcloudUrl.parse(public or base)
        pool = open_pool(
            ca_bundle=None,
            user_agent="Nextcloud MCP server (box)",
            transport=httpx2.MockTransport(self._answer),
        )
        self.login = LoginFlowClient(
            NextcloudHttp(pool, url, public_url=public_url if public else None), public_url=public_url
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return self.answer

    def answer_start(self, login: str) -> None:
        poll = {"token": "t" * 128, "endpoint": "http://nextcloud.test/login/v2/poll"}
        self.answer = httpx2.Response(200, json={"poll": poll, "login": login})


@pytest.mark.parametrize(
    ("base", "login", "shown"),
    [
        (
            "http://localhost:8080",
            "http://localhost/login/v2/flow/x",
            "http://localhost:8080/login/v2/flow/x",
        ),
        ("https://h", "https://h/index.php/login/v2/flow/x", "https://h/index.php/login/v2/flow/x"),
        ("https://h/nextcloud", "https://h/nextcloud/login/v2/flow/x", "https://h/nextcloud/login/v2/flow/x"),
        (
            "https://h/nc",
            "https://h/nc/nc/index.php/login/v2/flow/x",
            "https://h/nc/index.php/login/v2/flow/x",
        ),
    ],
)
async def test_a_flow_starts_with_or_without_pretty_urls_and_shows_a_url_on_the_base(
    base: str, login: str, shown: str
) -> None:
    """B31, B32, U08."""
    nextcloud = Nextcloud(base)
    nextcloud.answer_start(login)

    started = await nextcloud.login.start()

    assert started.login_url.get_secret_value() == shown
    assert started.poll_token.get_secret_value() == "t" * 128
    assert [(r.method, str(r.url)) for r in nextcloud.asked] == [("POST", f"{base}/index.php/login/v2")]
    assert nextcloud.asked[0].headers["User-Agent"] == "Nextcloud MCP server (box)"
    assert "t" * 128 not in repr(started)
    assert "flow/x" not in repr(started)


async def test_the_page_is_on_the_public_address_and_the_internal_server_hears_the_public_host() -> None:
    """U08: the server is reached by another name than browsers use."""
    nextcloud = Nextcloud("http://app:80", public="https://cloud.example.org/nextcloud")
    nextcloud.answer_start("http://app/nextcloud/login/v2/flow/x")

    started = await nextcloud.login.start()

    assert started.login_url.get_secret_value() == "https://cloud.example.org/nextcloud/login/v2/flow/x"
    assert nextcloud.asked[0].url.host == "app"
    assert nextcloud.asked[0].headers["Host"] == "cloud.example.org"


async def test_a_nextcloud_that_does_not_know_of_its_tls_is_refused_with_the_fix() -> None:
    """B29."""
    nextcloud = Nextcloud("https://h")
    nextcloud.answer_start("http://h/login/v2/flow/x")

    with pytest.raises(ServerFault, match=r"overwriteprotocol.*trusted_proxies"):
        await nextcloud.login.start()


async def test_a_login_page_of_another_kind_is_refused() -> None:
    nextcloud = Nextcloud("https://h")
    nextcloud.answer_start("https://h/apps/oauth2/authorize")

    with pytest.raises(ServerFault, match="no page"):
        await nextcloud.login.start()


async def test_maintenance_while_starting_is_said() -> None:
    """B28."""
    nextcloud = Nextcloud("https://h")
    nextcloud.answer = httpx2.Response(
        503, headers={"X-Nextcloud-Maintenance-Mode": "1"}, html="<html></html>"
    )

    with pytest.raises(Maintenance):
        await nextcloud.login.start()


async def test_polling_goes_to_the_configured_address_as_a_form() -> None:
    nextcloud = Nextcloud("https://h/nextcloud")

    granted = await nextcloud.login.poll(SecretStr("a&b="))

    assert granted is None
    [request] = nextcloud.asked
    assert (request.method, str(request.url)) == ("POST", "https://h/nextcloud/index.php/login/v2/poll")
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert request.content == b"token=a%26b%3D"


async def test_a_grant_is_read_and_its_server_is_ignored() -> None:
    nextcloud = Nextcloud("https://h")
    nextcloud.answer = httpx2.Response(
        200, json={"server": "http://evil.example", "loginName": "a@x.org", "appPassword": "p" * 72}
    )

    granted = await nextcloud.login.poll(SecretStr("t"))

    assert granted is not None
    assert (granted.login_name, granted.app_password.get_secret_value()) == ("a@x.org", "p" * 72)
    assert "p" * 72 not in repr(granted)


@pytest.mark.parametrize("status", [400, 405, 429, 500, 502, 503, 504])
async def test_a_poll_that_fails_is_no_answer_and_is_not_repeated_here(status: int) -> None:
    nextcloud = Nextcloud("https://h")
    nextcloud.answer = httpx2.Response(status)

    with pytest.raises(NextcloudError):
        await nextcloud.login.poll(SecretStr("t"))

    assert len(nextcloud.asked) == 1
