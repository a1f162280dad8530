"""The picture of an account; the answers as `AvatarController` of nextcloud/server gives them."""

from collections.abc import Callable

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.nextcloud.account import Nextcloud
from nextcloud_mcp_server.nextcloud.credential import BearerCredential
from nextcloud_mcp_server.nextcloud.picture import MOST_BYTES, Picture
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl

PNG = b"\x89PNG\r\n\x1a\n and the rest"
JPEG = b"\xff\xd8\xff and the rest"
WEBP = b"RIFF\x10\x00\x00\x00WEBP and the rest"
CHOSEN = {"X-NC-IsCustomAvatar": "1"}


async def picture_of(
    answer: Callable[[httpx2.Request], httpx2.Response], uid: str = "alice"
) -> Picture | None:
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as pool:
        nextcloud = Nextcloud(NextcloudUrl.parse("https://cloud.example.org"), pool)
        return await nextcloud.account(BearerCredential(SecretStr("token")), uid=uid).user.picture()


@pytest.mark.parametrize(
    ("media_type", "content"),
    [("image/png", PNG), ("image/jpeg", JPEG), ("image/webp", WEBP), ("IMAGE/PNG; charset=x", PNG)],
)
async def test_a_picture_that_the_user_chose_is_fetched_with_their_credential(
    media_type: str, content: bytes
) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, headers={**CHOSEN, "Content-Type": media_type}, content=content)

    picture = await picture_of(answer, "ali ce/x")

    assert picture is not None
    assert picture.content == content
    assert picture.data_uri.startswith(f"data:{media_type.partition(';')[0].lower()};base64,")
    assert asked[0].url.raw_path == b"/index.php/avatar/ali%20ce%2Fx/64"
    assert asked[0].headers["Authorization"] == "Bearer token"


@pytest.mark.parametrize(
    ("status", "headers", "content"),
    [
        (200, {"X-NC-IsCustomAvatar": "0", "Content-Type": "image/png"}, PNG),
        (200, {"Content-Type": "image/png"}, PNG),
        (200, {**CHOSEN, "Content-Type": "image/svg+xml"}, b"<svg onload='x'/>"),
        (200, {**CHOSEN, "Content-Type": "image/png"}, b"<html>"),
        (200, {**CHOSEN, "Content-Type": "text/html"}, PNG),
        (200, {**CHOSEN, "Content-Type": "image/jpeg"}, PNG),
        (200, {**CHOSEN, "Content-Type": "image/webp"}, b"RIFF\x10\x00\x00\x00WAVE"),
        (200, CHOSEN, b""),
        (200, {**CHOSEN, "Content-Type": "image/png"}, PNG + b"x" * MOST_BYTES),
        (302, {"Location": "https://evil.example/x.png"}, b""),
        (404, {}, b""),
        (401, {}, b""),
        (503, {}, b""),
    ],
)
async def test_anything_else_is_no_picture(status: int, headers: dict[str, str], content: bytes) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers=headers, content=content)

    assert await picture_of(answer) is None


async def test_a_nextcloud_that_is_away_gives_no_picture() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("away", request=request)

    assert await picture_of(answer) is None
