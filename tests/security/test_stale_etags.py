"""A model that is told the current etag repeats its change with it, and erases what another user wrote."""

import httpx2
import pytest

from nextcloud_mcp_server.errors import EtagMismatch
from nextcloud_mcp_server.nextcloud import error_mapping, file_errors
from tests.dav_fakes import http_over


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(412, headers={"ETag": '"canary-of-now"'}),
        httpx2.Response(412, headers={"OC-ETag": '"canary-of-now"'}),
        httpx2.Response(412, json={"id": 7, "etag": "canary-of-now", "content": "what another person wrote"}),
    ],
)
async def test_the_refusal_of_a_stale_etag_does_not_name_the_current_one(answer: httpx2.Response) -> None:
    with pytest.raises(EtagMismatch, match="Read it again") as caught:
        await http_over(lambda _: answer).request("PUT", "/x", headers={"If-Match": '"old"'})

    assert "canary-of-now" not in str(caught.value)


def test_nor_does_that_of_a_file() -> None:
    assert "canary" not in str(file_errors.changed("a.txt", "canary-of-now"))


def test_the_refusal_says_to_read_again_and_to_look() -> None:
    assert "Read it again, look at what has changed" in error_mapping.CHANGED
