"""Hostile XML in Nextcloud's place: refused, in bounded memory."""

import tracemalloc
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from nextcloud_mcp_server.errors import NextcloudError, ServerFault, TooLarge
from nextcloud_mcp_server.nextcloud import multistatus

OPENED = b'<d:multistatus xmlns:d="DAV:">'
RESPONSE = OPENED + b"<d:response><d:propstat><d:prop><d:x>"
MEGABYTE = 1_048_576


async def in_pieces(data: bytes) -> AsyncGenerator[bytes]:
    for start in range(0, len(data), 65_536):
        yield data[start : start + 65_536]


async def repeated(first: bytes, again: bytes) -> AsyncGenerator[bytes]:
    yield first
    while True:
        yield again


async def drain(chunks: AsyncGenerator[bytes]) -> int:
    return sum([len(responses) async for responses in multistatus.read(chunks)])


async def test_an_external_entity_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    attack = (
        f'<!DOCTYPE d [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'.encode() + OPENED + b"&x;</d:multistatus>"
    )

    with pytest.raises(ServerFault, match="document type"):
        await drain(in_pieces(attack))


@pytest.mark.parametrize(
    "doctype",
    [
        b"<!DOCTYPE d>",
        b'<!DOCTYPE d SYSTEM "https://evil.example/x.dtd">',
        b'<!DOCTYPE d PUBLIC "x" "https://evil.example/x.dtd">',
        b'<!DOCTYPE d [<!ENTITY % p SYSTEM "https://evil.example/x"> %p;]>',
    ],
)
async def test_no_document_type_is_accepted(doctype: bytes) -> None:
    with pytest.raises(ServerFault):
        await drain(in_pieces(doctype + OPENED + b"</d:multistatus>"))


async def test_an_entity_bomb_does_not_go_off() -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE d [<!ENTITY e0 "boom">{levels}]><d:multistatus xmlns:d="DAV:">&e9;</d:multistatus>'

    with pytest.raises(ServerFault):
        await drain(in_pieces(bomb.encode()))


async def test_a_document_type_in_another_encoding_is_refused_too() -> None:
    attack = '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE d [<!ENTITY x "y">]><d>&x;</d>'.encode(
        "utf-16"
    )

    with pytest.raises(ServerFault):
        await drain(in_pieces(attack))


async def test_an_entity_bomb_in_an_attribute_does_not_go_off() -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    bomb = (
        f'<!DOCTYPE d [<!ENTITY e0 "boom">{levels}]><d:multistatus xmlns:d="DAV:" a="&e9;"></d:multistatus>'
    )

    with pytest.raises(ServerFault):
        await drain(in_pieces(bomb.encode()))


async def test_a_response_inside_a_response_is_not_read_as_one() -> None:
    inner = b"<d:response><d:href>/remote.php/dav/files/alice/x</d:href></d:response>"

    seen = await drain(in_pieces(OPENED + b"<d:response>" + inner * 3 + b"</d:response></d:multistatus>"))

    assert seen == 1


async def test_an_undeclared_entity_is_a_fault() -> None:
    with pytest.raises(ServerFault):
        await drain(in_pieces(OPENED + b"&x;</d:multistatus>"))


@pytest.mark.parametrize(
    ("first", "again"),
    [
        pytest.param(OPENED, b"<a>" * 1000, id="deep"),
        pytest.param(OPENED, b"<a/>" * 1000, id="wide outside a response"),
        pytest.param(RESPONSE, b"<a/>" * 1000, id="wide inside a response"),
        pytest.param(RESPONSE, b"a" * 65_536, id="endless text"),
        pytest.param(RESPONSE, b"a&amp;" * 10_000, id="endless text in pieces"),
        pytest.param(RESPONSE + b"<![CDATA[", b"a" * 65_536, id="endless character data"),
        pytest.param(RESPONSE + b"<a ", b"a" * 65_536, id="endless attribute name"),
        pytest.param(RESPONSE + b'<a b="', b"a" * 65_536, id="endless attribute"),
        pytest.param(OPENED + b"<!--", b"a" * 65_536, id="endless comment"),
        pytest.param(OPENED + b"<?a ", b"a" * 65_536, id="endless instruction"),
        pytest.param(OPENED, b" " * 65_536, id="endless space"),
    ],
)
async def test_endless_answers_are_given_up_in_bounded_memory(first: bytes, again: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(NextcloudError):
            await drain(repeated(first, again))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 8 * MEGABYTE


async def test_many_responses_pass_by_without_being_kept() -> None:
    one = b"<d:response><d:href>/remote.php/dav/files/alice/x</d:href></d:response>"
    count = 20_000

    tracemalloc.start()
    try:
        seen = 0
        async for responses in multistatus.read(in_pieces(OPENED + one * count + b"</d:multistatus>")):
            seen += len(responses)
        current, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert seen == count
    assert current < 4 * MEGABYTE


async def test_an_answer_with_too_many_bytes_is_given_up() -> None:
    one = b"<d:response><d:href>" + b"x" * 200_000 + b"</d:href></d:response>"

    with pytest.raises(TooLarge):
        await drain(repeated(OPENED, one))


async def test_an_element_of_many_tags_is_given_up_long_before_its_bytes() -> None:
    """An object of a calendar may have megabytes of text, but not of tags."""
    tags = repeated(RESPONSE, b"<d:y/>" * 10_000)

    tracemalloc.start()
    with pytest.raises(TooLarge, match="does not end"):
        async for _ in multistatus.read(tags, longest=20 * MEGABYTE):
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 4 * MEGABYTE
