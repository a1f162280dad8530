from collections.abc import AsyncGenerator

import anyio
import pytest
from anyio import lowlevel

from nextcloud_mcp_server.errors import Forbidden, NotNextcloud, ServerFault, TooLarge
from nextcloud_mcp_server.nextcloud import multistatus
from nextcloud_mcp_server.nextcloud.multistatus import DavResponse
from tests.dav_fakes import entry, recorded
from tests.dav_fakes import multistatus as answer


async def in_pieces(data: bytes, size: int) -> AsyncGenerator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def parse(data: bytes, size: int = 65_536) -> list[DavResponse]:
    return [each async for responses in multistatus.read(in_pieces(data, size)) for each in responses]


@pytest.mark.parametrize("size", [1, 7, 1000, 1_000_000])
async def test_a_recorded_answer_reads_the_same_in_any_pieces(size: int) -> None:
    data = recorded("webdav/propfind_unicode_dir").content

    [response] = await parse(data, size)

    assert response.href.endswith("/%c3%9cn%c3%af%20c%c3%b6d%c3%a9%20%e6%97%a5%e6%9c%ac/")
    assert response.text("d:getetag") == '"6b09f0390099f"'
    assert response.text("d:displayname") == "Ünï cödé 日本"
    assert response.has_inner("d:resourcetype", "d:collection")


async def test_properties_the_server_does_not_have_are_absent() -> None:
    data = recorded("webdav/propfind_unicode_dir").content

    [response] = await parse(data)

    assert response.text("d:getcontenttype") == ""
    assert response.inner_texts("nc:lock", "nc:x") == []
    assert not response.has_inner("nc:lock", "nc:x")


@pytest.mark.parametrize(("status", "etag"), [("200 OK", '"e1"'), ("404 Not Found", "")])
@pytest.mark.parametrize(
    "propstat",
    ["{prop}{status}", "{status}{prop}", "{prop}{status}<d:responsedescription>x</d:responsedescription>"],
)
async def test_the_parts_of_a_propstat_may_stand_in_any_order(propstat: str, status: str, etag: str) -> None:
    """RFC 4918 §17 has no order; Nextcloud writes the properties and then their status."""
    parts = propstat.format(
        prop="<d:prop><d:getetag>&quot;e1&quot;</d:getetag></d:prop>",
        status=f"<d:status>HTTP/1.1 {status}</d:status>",
    )
    data = answer([f"<d:response><d:href>/a</d:href><d:propstat>{parts}</d:propstat></d:response>"]).content

    [response] = await parse(data)

    assert (response.href, response.text("d:getetag")) == ("/a", etag)


def with_status(*statuses: str) -> str:
    propstats = "".join(
        f"<d:propstat><d:prop><d:getetag/></d:prop><d:status>HTTP/1.1 {status}</d:status></d:propstat>"
        for status in statuses
    )
    return f"<d:response><d:href>/a</d:href>{propstats}</d:response>"


@pytest.mark.parametrize("size", [100, 1_000_000])
@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        ("403 Forbidden", Forbidden),
        ("401 Unauthorized", Forbidden),
        ("500 Internal Server Error", ServerFault),
        ("507 Insufficient Storage", ServerFault),
    ],
)
async def test_a_list_that_tells_nothing_of_anything_is_an_error_and_not_an_empty_list(
    status: str, refusal: type[Exception], size: int
) -> None:
    """RFC 4918 §9.1.2: each property has a status of its own."""
    rows = [with_status(status)] * (2_000 if size == 100 else 2)

    with pytest.raises(refusal, match="Nextcloud lists this and"):
        await parse(answer(rows).content, size)


@pytest.mark.parametrize(
    "rows",
    [
        [with_status("404 Not Found")],
        [with_status("403 Forbidden", "200 OK")],
        [with_status("403 Forbidden"), entry("a")],
        [entry("a"), with_status("403 Forbidden")],
        ["<d:response><d:href>/a</d:href><d:status>HTTP/1.1 404 Not Found</d:status></d:response>"],
    ],
)
async def test_a_list_of_which_something_is_told_is_read(rows: list[str]) -> None:
    assert len(await parse(answer(rows).content)) == len(rows)


async def test_elements_inside_a_property_are_listed() -> None:
    person = "<nc:sharee><nc:id>bob</nc:id><nc:display-name>Bob &amp; Co</nc:display-name></nc:sharee>"
    inside = f"<nc:sharees>{person}</nc:sharees>"
    data = answer([entry("a", extra=inside)]).content

    [response] = await parse(data)

    assert response.inner_texts("nc:sharees", "nc:display-name") == ["Bob & Co"]


async def test_text_and_elements_in_odd_places_change_nothing() -> None:
    data = answer(["noise", entry("a"), "<d:responsedescription>x<d:y/></d:responsedescription>"]).content
    odd = data.replace(b"<d:propstat>", b"<d:error><d:z/></d:error><d:propstat><d:odd/>", 1)

    [response] = await parse(odd)

    assert response.text("oc:size") == "3"


@pytest.mark.parametrize("size", [1, 1000])
async def test_a_multistatus_inside_a_property_is_not_read_as_another(size: int) -> None:
    inside = f"<d:multistatus>{entry('b')}</d:multistatus>"
    data = answer([entry("a", extra=inside), entry("c")]).content

    found = await parse(data, size)

    assert [response.href for response in found] == [
        "/remote.php/dav/files/alice/a",
        "/remote.php/dav/files/alice/c",
    ]


@pytest.mark.parametrize("size", [1, 1000])
async def test_a_multistatus_inside_something_else_is_not_a_nextcloud(size: int) -> None:
    inside = answer([entry("a")]).content.partition(b"?>")[2]

    with pytest.raises(NotNextcloud):
        await parse(b"<html>" + inside + b"</html>", size)


async def test_an_empty_answer_holds_nothing() -> None:
    assert await parse(recorded("webdav/search_no_result").content) == []


@pytest.mark.parametrize("data", [b"", b"not xml", b'<d:multistatus xmlns:d="DAV:"><d:response>'])
async def test_what_is_no_complete_xml_is_a_fault_of_the_server(data: bytes) -> None:
    with pytest.raises(ServerFault):
        await parse(data)


async def test_a_web_page_is_not_a_nextcloud() -> None:
    with pytest.raises(NotNextcloud):
        await parse(b"<html><body>Sign in</body></html>")


async def test_an_answer_over_the_byte_cap_is_refused() -> None:
    async def endless() -> AsyncGenerator[bytes]:
        yield b'<d:multistatus xmlns:d="DAV:">'
        while True:
            yield b" " * 1_048_576

    with pytest.raises(TooLarge):
        [responses async for responses in multistatus.read(endless())]


async def test_other_requests_have_their_turn_while_a_long_list_is_parsed() -> None:
    """A list of 60,000 tags kept every request of other users waiting 8 times as long."""
    data = answer([entry(f"file {number}") for number in range(3000)]).content
    turns, turns_between = 0, list[int]()

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count_turns)
        before = turns
        async for responses in multistatus.read(in_pieces(data, len(data))):
            turns_between.append(turns - before)
            before = turns
            assert len(responses) < 100
        group.cancel_scope.cancel()

    # But for the last, which ends with the document, each batch comes after a turn.
    assert all(turns_between[:-1])
