from collections.abc import Callable

import httpx2
import pytest

from nextcloud_mcp_server.errors import NotFound, ServerFault, WrongAccount
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.nextcloud.user import UserClient

OK = {"status": "ok", "statuscode": 200, "message": "OK"}


def client(answer: Callable[[httpx2.Request], httpx2.Response]) -> UserClient:
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=httpx2.MockTransport(answer))
    return UserClient(NextcloudHttp(pool, NextcloudUrl.parse("https://h/nextcloud")))


async def test_the_signed_in_user_is_read_from_the_envelope() -> None:
    """B13, B14, U23: the uid comes from cloud/user, whatever the login name was."""
    asked: list[httpx2.URL] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url)
        data = {
            "enabled": True,
            "id": "alice",
            "displayname": "Alice Example",
            "display-name": "Alice Example",
        }
        return httpx2.Response(200, headers={"X-User-Id": "alice"}, json={"ocs": {"meta": OK, "data": data}})

    user = await client(answer).get()

    assert (user.uid, user.display_name) == ("alice", "Alice Example")
    assert [str(url) for url in asked] == ["https://h/nextcloud/ocs/v2.php/cloud/user?format=json"]


async def test_two_different_accounts_in_one_answer_are_thrown_away() -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(
            200, headers={"X-User-Id": "bob"}, json={"ocs": {"meta": OK, "data": {"id": "alice"}}}
        )

    with pytest.raises(WrongAccount):
        await client(answer).get()


@pytest.mark.parametrize(
    "body",
    [b"[]", b"<html>secret-canary</html>", b'{"ocs":{"meta":{},"data":[]}}', b'{"ocs":{"data":{"id":""}}}'],
)
async def test_an_answer_without_envelope_or_data_is_a_fault_that_repeats_nothing(body: bytes) -> None:
    """U44: PHP writes an empty map as a list."""
    with pytest.raises(ServerFault) as caught:
        await client(lambda _: httpx2.Response(200, content=body)).get()

    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_an_unknown_route_is_not_found() -> None:
    meta = {
        "status": "failure",
        "statuscode": 998,
        "message": "Invalid query, see http://www.freedesktop.org/wiki",
    }

    with pytest.raises(NotFound) as caught:
        await client(lambda _: httpx2.Response(404, json={"ocs": {"meta": meta, "data": []}})).get()

    assert "http" not in str(caught.value)
