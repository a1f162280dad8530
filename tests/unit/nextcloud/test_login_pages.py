import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import ProgramRefused
from nextcloud_mcp_server.nextcloud import login_pages
from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.http import open_pool
from nextcloud_mcp_server.nextcloud.program import PROGRAM, user_agent
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

LOGIN = SecretStr("https://cloud.example.org/nc/login/v2/flow/token")
#: What 32.0.1 with a list of programs answered .
REFUSAL = httpx2.Response(403, html="<p>\n\t\t\t\t\tPlease use original client\t\t\t</p>")
EXPIRED = "Your login token is invalid or has expired"
ENDED = httpx2.Response(403, html=f"<head>nonce 2</head><p a=2>{EXPIRED}")
LANDING = httpx2.Response(
    303,
    headers=[
        ("Location", "https://cloud.example.org/nc/login/v2/flow?user=&direct=0"),
        ("Set-Cookie", "oc_sessionPassphrase=p%3D; path=/; HttpOnly; SameSite=Lax"),
        ("Set-Cookie", "__Host-nc_sameSiteCookielax=true; path=/; secure"),
    ],
)


async def check(*answers: httpx2.Response | Exception) -> list[httpx2.Request]:
    asked, left = list[httpx2.Request](), list(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    pool = open_pool(ca_bundle=None, user_agent=user_agent(), transport=httpx2.MockTransport(answer))
    public_url = NextcloudUrl.parse("https://cloud.example.org/nc")
    nextcloud = Nextcloud(NextcloudUrl.parse("http://app:80/nc"), pool, public_url=public_url)
    await nextcloud.login_pages.check(LOGIN)
    return asked


async def test_the_pages_are_opened_at_the_configured_address_with_the_cookies_of_the_first() -> None:
    landing, page = await check(LANDING, httpx2.Response(200, html="Connect to your account"))

    assert str(landing.url) == "http://app/nc/index.php/login/v2/flow/token"
    assert str(page.url) == "http://app/nc/index.php/login/v2/flow"
    assert page.headers["Cookie"] == "oc_sessionPassphrase=p%3D; __Host-nc_sameSiteCookielax=true"
    assert (page.headers["Host"], page.headers["Accept-Language"]) == ("cloud.example.org", "en")
    assert page.headers["User-Agent"].startswith(PROGRAM)


async def test_the_refusal_of_a_program_is_found() -> None:
    with pytest.raises(ProgramRefused):
        await check(LANDING, REFUSAL, ENDED)


async def test_it_is_found_in_any_language() -> None:
    """`force_language` of Nextcloud's administrator overrides the language that is asked for."""
    page, ended = "Bitte den Original-Client verwenden", "Ihr Zugangs-Token ist ungültig oder abgelaufen"

    with pytest.raises(ProgramRefused):
        await check(LANDING, httpx2.Response(403, html=page), httpx2.Response(403, html=ended))


@pytest.mark.parametrize(
    "answers",
    [
        [LANDING, httpx2.Response(403, html=f"<head>nonce 1</head><p a=1>{EXPIRED}"), ENDED],
        [LANDING, REFUSAL, httpx2.Response(429, html="too many")],
        [ENDED],
        [httpx2.Response(303, headers={"Location": "https://sso.example.org"})],
        [LANDING, httpx2.Response(200, html="Please use original client")],
        [httpx2.Response(503)],
        [httpx2.ConnectError("away")],
        [LANDING, httpx2.ReadTimeout("slow")],
    ],
)
async def test_whatever_else_happens_is_left_to_the_browser(
    answers: list[httpx2.Response | Exception],
) -> None:
    assert await check(*answers)


@pytest.mark.parametrize(
    ("page", "seen"),
    [
        ("<!DOCTYPE html><html><head><title>a</title></head><body>b <b>c</b></body>", "b c"),
        ("a<script>if (b < c) d()</script>e<style>f</style>g", "a e g"),
        ("<header>a</header><h1>b</h1>", "a b"),
        ("<script>a</style>b</script>c", "c"),
        ("a<head><head>b", "a"),
        ("a < b, c<", "a b, c"),
    ],
)
async def test_only_what_a_reader_sees_is_compared(page: str, seen: str) -> None:
    found = vars(login_pages)["_seen"](httpx2.Response(403, html=page))

    assert found == seen


@pytest.mark.parametrize("unit", ["<", "<head", "<head>", "</head>", "<script>a", "<a", ">", "<head<style>"])
def test_each_character_of_a_page_is_read_once(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    """A page of unclosed elements was searched to its end from each of them."""
    parted, page, read = vars(login_pages)["_parted"], unit * 10_000, 0

    def counted(piece: str) -> object:
        nonlocal read
        read += len(piece)
        return parted(piece)

    monkeypatch.setattr(login_pages, "_parted", counted)
    vars(login_pages)["_seen"](httpx2.Response(403, html=page))

    assert read <= len(page)
