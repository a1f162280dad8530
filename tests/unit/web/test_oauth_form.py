from collections.abc import Sequence

import pytest
from starlette.requests import Request
from starlette.types import Message

from nextcloud_mcp_server.errors import OAuthRefusal
from nextcloud_mcp_server.web.oauth_form import MOST_BYTES, Credentials, body_of, form_of, only
from tests.oauth_api_fixtures import basic, raw_basic

FORM = "application/x-www-form-urlencoded"


def request(
    *chunks: bytes, content_types: Sequence[str] = (FORM,), authorization: Sequence[str] = ()
) -> Request:
    messages: list[Message] = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
        for number, chunk in enumerate(chunks, 1)
    ]

    async def receive() -> Message:
        return messages.pop(0)

    headers = [(b"content-type", text.encode()) for text in content_types]
    headers += [(b"authorization", text.encode()) for text in authorization]
    return Request({"type": "http", "method": "POST", "path": "/token", "headers": headers}, receive)


async def test_a_form_is_read_as_it_was_meant() -> None:
    form = await form_of(request(b"grant_type=refresh", b"_token&scope=a+b%20c&empty=&name=%C3%BC"))

    assert form == {"grant_type": ["refresh_token"], "scope": ["a b c"], "name": ["ü"]}
    assert only(form, "name") == "ü"
    assert only(form, "empty") is None


@pytest.mark.parametrize(
    "content_type",
    [FORM, FORM.upper(), f"{FORM};charset=utf-8", f'{FORM}; Charset="UTF-8"', f"{FORM} ; x=y; charset=utf8"],
)
async def test_the_type_may_be_written_in_every_usual_way(content_type: str) -> None:
    assert await form_of(request(b"a=b", content_types=[content_type])) == {"a": ["b"]}


@pytest.mark.parametrize(
    "content_types",
    [
        [],
        [""],
        ["text/plain"],
        ["multipart/form-data; boundary=x"],
        [f"{FORM}, application/json"],
        [FORM, "application/json"],
        [FORM, FORM],
        [f"{FORM}; charset=utf-16"],
        [f"{FORM}; charset="],
        [f"{FORM}; x=y; charset = utf-7"],
    ],
)
async def test_a_body_of_another_type_or_charset_is_not_read(content_types: list[str]) -> None:
    with pytest.raises(OAuthRefusal, match=f"Send the body as {FORM}") as refused:
        await form_of(request(b"a=b", content_types=content_types))

    assert (refused.value.error, refused.value.status) == ("invalid_request", 400)


@pytest.mark.parametrize(
    "body",
    [
        b"a=1&a=2",
        b"a=1&a=",
        b"a=1&%61=2",
        b"a=\xff",
        b"a=%FF",
        b"a=%ED%A0%80",
        "a=ü".encode(),
        b"&".join(b"p%d=1" % number for number in range(65)),
    ],
)
async def test_a_form_that_could_be_read_in_two_ways_is_not_read(body: bytes) -> None:
    with pytest.raises(OAuthRefusal) as refused:
        await form_of(request(body))

    assert refused.value.error == "invalid_request"


async def test_only_resources_may_be_several() -> None:
    assert await form_of(request(b"resource=a&resource=b")) == {"resource": ["a", "b"]}


async def test_a_body_is_read_up_to_what_is_needed_and_not_a_byte_further() -> None:
    half = b"x" * (MOST_BYTES // 2)

    assert len(await body_of(request(half, half), FORM)) == MOST_BYTES
    with pytest.raises(OAuthRefusal) as refused:
        await body_of(request(half, half, b"x", b"never read"), FORM, error="invalid_client_metadata")

    assert (refused.value.status, refused.value.error) == (413, "invalid_client_metadata")


@pytest.mark.parametrize(
    ("authorization", "form", "found"),
    [
        ([], {"client_id": ["mcp-a"]}, Credentials("mcp-a", None)),
        ([], {"client_id": ["mcp-a"], "client_secret": ["s"]}, Credentials("mcp-a", "s")),
        ([basic("mcp-a", "s")["Authorization"]], {}, Credentials("mcp-a", "s")),
        ([basic("mcp-a", "s")["Authorization"]], {"client_id": ["mcp-a"]}, Credentials("mcp-a", "s")),
        ([basic("a:b c", "p%+ü:")["Authorization"]], {}, Credentials("a:b c", "p%+ü:")),
        ([raw_basic("mcp-a:")["Authorization"]], {}, Credentials("mcp-a", None)),
        ([basic("mcp-a", "s")["Authorization"].replace("Basic", "bAsIc")], {}, Credentials("mcp-a", "s")),
    ],
)
def test_a_client_says_who_it_is_in_one_of_two_ways(
    authorization: list[str], form: dict[str, list[str]], found: Credentials
) -> None:
    assert Credentials.of(request(authorization=authorization), form) == found


@pytest.mark.parametrize(
    ("authorization", "form", "error"),
    [
        ([], {}, "invalid_client"),
        ([], {"client_secret": ["s"]}, "invalid_client"),
        (["Basic"], {}, "invalid_client"),
        (["Basic ==="], {}, "invalid_client"),
        (["Basic /w=="], {}, "invalid_client"),
        (["Bearer mcp-a"], {}, "invalid_client"),
        ([basic("mcp-a", "s")["Authorization"].replace("Basic", "Digest")], {}, "invalid_client"),
        ([basic("mcp-a", "s")["Authorization"].replace("Basic", "Basicly")], {}, "invalid_client"),
        ([raw_basic("mcp-a")["Authorization"]], {}, "invalid_client"),
        ([raw_basic(":s")["Authorization"]], {}, "invalid_client"),
        ([basic("mcp-a", "s")["Authorization"]] * 2, {}, "invalid_client"),
        ([basic("mcp-a", "s")["Authorization"]], {"client_secret": ["s"]}, "invalid_request"),
        ([basic("mcp-a", "s")["Authorization"]], {"client_id": ["mcp-b"]}, "invalid_request"),
    ],
)
def test_credentials_in_both_ways_or_in_no_readable_one_identify_no_client(
    authorization: list[str], form: dict[str, list[str]], error: str
) -> None:
    with pytest.raises(OAuthRefusal) as refused:
        Credentials.of(request(authorization=authorization), form)

    assert refused.value.error == error
    assert refused.value.status == (401 if error == "invalid_client" else 400)


def test_a_secret_is_not_in_what_is_printed() -> None:
    assert "hunter2" not in repr(Credentials("mcp-a", "hunter2"))
