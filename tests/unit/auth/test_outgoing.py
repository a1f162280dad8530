from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.outgoing import JsonAnswer, Outgoing
from nextcloud_mcp_server.errors import IssuerUnavailable
from nextcloud_mcp_server.nextcloud.http import open_pool
from tests.issuer_fixtures import Handler, answering, silent

URL = "https://id.test/.well-known/openid-configuration"


def outgoing(handler: Handler) -> Outgoing:
    return Outgoing(open_pool(ca_bundle=None, user_agent="test", transport=httpx2.MockTransport(handler)))


def redirecting(*paths: str) -> Handler:
    """Redirect to one after the other, then answer with the address asked for last."""
    left = list(paths)

    async def handler(request: httpx2.Request) -> httpx2.Response:
        if left:
            return httpx2.Response(301, headers={"Location": left.pop(0)})
        return httpx2.Response(200, json={"at": str(request.url)})

    return handler


async def test_an_answer_is_status_and_body() -> None:
    assert await outgoing(answering(200, json={"a": 1})).json("GET", URL) == JsonAnswer(200, {"a": 1})
    assert await outgoing(answering(404, json=[1])).json("GET", URL) == JsonAnswer(404, [1])


@pytest.mark.parametrize("content", [b"<html>", b'{"a": 1, "a": 2}', b"", b"\xff"])
async def test_what_is_no_strict_json_has_no_body(content: bytes) -> None:
    answer = await outgoing(answering(400, content=content)).json("GET", URL)

    assert answer == JsonAnswer(400, None)
    assert answer.fields == {}


async def test_form_client_and_token_go_where_they_belong() -> None:
    asked: list[httpx2.Request] = []

    async def handler(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json={}, headers={"Set-Cookie": "session=alice"})

    out = outgoing(handler)
    await out.json("POST", URL, form={"token": "a b&c"}, basic=("i d", SecretStr("s:ü")))
    await out.json("GET", URL, bearer=SecretStr("secret-token"))

    assert asked[0].content == b"token=a+b%26c"
    assert asked[0].headers["Authorization"] == "Basic aStkOnMlM0ElQzMlQkM="
    assert asked[1].headers["Authorization"] == "Bearer secret-token"
    assert [request.headers["Accept-Encoding"] for request in asked] == ["identity", "identity"]
    assert "Cookie" not in asked[1].headers


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_trouble_at_the_issuer_is_told_with_its_status(status: int) -> None:
    with pytest.raises(IssuerUnavailable) as caught:
        await outgoing(answering(status, json={})).json("GET", URL)

    assert caught.value.status == status


async def bomb() -> AsyncIterator[bytes]:
    for _ in range(1000):
        yield b" " * 1000


@pytest.mark.parametrize(
    "handler",
    [
        silent,
        answering(200, content=b" " * 300_000),
        answering(200, content=bomb()),
        answering(200, content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
        redirecting("https://elsewhere.test/index.php/.well-known/openid-configuration"),
        redirecting("http://id.test/index.php/.well-known/openid-configuration"),
        redirecting("https://id.test:444/index.php/.well-known/openid-configuration"),
        redirecting("http://169.254.169.254/latest/meta-data"),
        redirecting("/login"),
        redirecting("/.well-known/openid-configuration"),
        redirecting("/index.php/.well-known/openid-configuration?a=b"),
        redirecting("https://id.test@elsewhere.test/.well-known/openid-configuration/"),
        redirecting(*(f"/index.php{'/index.php' * n}/.well-known/openid-configuration" for n in range(3))),
        redirecting(""),
    ],
)
async def test_what_cannot_be_trusted_or_read_is_unavailable(handler: Handler) -> None:
    with pytest.raises(IssuerUnavailable):
        await outgoing(handler).json("GET", URL)


@pytest.mark.parametrize(
    ("target", "at"),
    [
        ("https://id.test/index.php/.well-known/openid-configuration", "/index.php/.well-known"),
        ("/.well-known/openid-configuration/", "/.well-known"),
    ],
)
async def test_a_redirect_to_the_same_place_is_followed(target: str, at: str) -> None:
    answer = await outgoing(redirecting(target)).json("GET", URL)

    assert answer.fields["at"].startswith(f"https://id.test{at}")


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("POST", {"form": {"code": "secret"}}),
        ("GET", {"bearer": SecretStr("token")}),
        ("GET", {"basic": ("id", SecretStr("secret"))}),
    ],
)
async def test_nothing_secret_follows_a_redirect(method: str, options: dict[str, Any]) -> None:
    with pytest.raises(IssuerUnavailable, match="redirects"):
        await outgoing(redirecting("/index.php/.well-known/openid-configuration")).json(
            method, URL, **options
        )


async def test_an_issuer_that_never_answers_is_given_up() -> None:
    async def handler(_: httpx2.Request) -> httpx2.Response:
        await anyio.sleep_forever()
        raise NotImplementedError

    with pytest.raises(IssuerUnavailable, match="in time"):
        await outgoing(handler).json("GET", URL, seconds=0.01)
