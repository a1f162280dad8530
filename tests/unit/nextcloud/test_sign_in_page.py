"""A page of something before Nextcloud, and part of an answer, are never a file's content (item 3)."""

from pathlib import Path
from typing import Any, cast

import anyio
import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.apps.files.resources import Files
from nextcloud_mcp_server.apps.notes.client import NotesClient
from nextcloud_mcp_server.errors import NotNextcloud, ServerFault, Unreachable
from nextcloud_mcp_server.resources.kind import Reader
from nextcloud_mcp_server.tools.documents import Documents
from nextcloud_mcp_server.tools.local_folder import LocalFolder
from nextcloud_mcp_server.tools.registry import load
from tests.dav_fakes import (
    MOMENT,
    ProgressLog,
    account_over,
    call,
    call_with,
    entry,
    multistatus,
    network,
    nothing_read,
    recorded,
)

PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><form>Password</form></body></html>"
HTML = "<d:getcontenttype>text/html</d:getcontenttype>"


def page(**headers: str) -> httpx2.Response:
    """Answer as a proxy that asks to sign in."""
    return httpx2.Response(200, headers={"Content-Type": "text/html; charset=utf-8", **headers}, content=PAGE)


@pytest.mark.parametrize(
    "answer",
    [page(), page(ETag='"theirs"', **{"Last-Modified": MOMENT}), page(**{"X-Request-Id": "abc"})],
)
async def test_a_sign_in_page_is_not_the_text_of_a_file(answer: httpx2.Response) -> None:
    net = network(answer, multistatus([entry("a.txt")]))

    with pytest.raises(NotNextcloud, match=r"web page came back instead of 'a.txt'"):
        await call(account_over(net), "nc_files_read_file", path="a.txt")


async def test_a_sign_in_page_is_not_the_source_of_a_page_that_is_stored() -> None:
    net = network(page(), multistatus([entry("a.html", extra=HTML)]))

    with pytest.raises(NotNextcloud):
        await call(account_over(net), "nc_files_read_file", path="a.html", raw=True)


async def test_a_stored_page_is_read_with_one_request() -> None:
    named = {"Content-Disposition": 'attachment; filename="a.html"', "ETag": '"e1"'}
    net = network(page(**named))

    read = await call(account_over(net), "nc_files_read_file", path="a.html", raw=True)

    assert read.content == PAGE.decode()
    assert net.methods == ["GET"]


async def test_a_stored_page_of_a_nextcloud_that_names_none_is_looked_at_and_read() -> None:
    plain = page(ETag='"e1"', **{"Content-Length": str(len(PAGE))})
    net = network(plain, multistatus([entry("a.html", size=len(PAGE), extra=HTML)]))

    read = await call(account_over(net), "nc_files_read_file", path="a.html", raw=True)

    assert read.content == PAGE.decode()
    assert net.methods == ["GET", "PROPFIND"]


async def test_a_sign_in_page_is_not_saved_as_a_download(tmp_path: Path) -> None:
    net = network(multistatus([entry("a.pdf", size=len(PAGE))]), page())
    local_folder = LocalFolder(tmp_path)

    with pytest.raises(NotNextcloud):
        await call_with(
            {"local_folder": local_folder},
            load("upload"),
            account_over(net),
            "nc_files_download_file",
            path="a.pdf",
        )

    assert [each async for each in anyio.Path(tmp_path).iterdir()] == []


async def test_a_sign_in_page_is_not_given_to_the_reader_of_documents() -> None:
    net = network(multistatus([entry("a.docx", size=len(PAGE))]), page())

    with pytest.raises(NotNextcloud):
        await call(account_over(net), "nc_files_read_file", path="a.docx")


async def test_a_sign_in_page_is_no_preview() -> None:
    picture = httpx2.Response(
        206,
        headers={
            "ETag": '"e1"', "Content-Type": "image/png", "Content-Range": "bytes 0-11/999999",
            "Content-Disposition": "attachment",
        },
        content=b"\x89PNG\r\n\x1a\n1234",
    )  # fmt: skip
    net = network(picture, multistatus([entry("a.png", extra="<oc:fileid>7</oc:fileid>")]), page())

    with pytest.raises(NotNextcloud, match="instead of 'the preview'"):
        await call(account_over(net), "nc_files_read_file", path="a.png")


async def test_a_sign_in_page_is_no_attachment_of_a_note() -> None:
    with pytest.raises(NotNextcloud, match=r"b\.png"):
        await account_over(network(page())).client(NotesClient).attachment("7", "b.png")


async def test_the_attachment_that_was_recorded_is_one() -> None:
    answer = recorded("notes/attachment_get")

    assert (
        await account_over(network(answer)).client(NotesClient).attachment("318", "b.png")
    ).media_type == "image/png"


async def test_a_sign_in_page_is_no_resource() -> None:
    net = network(page(), multistatus([entry("a.txt")]))

    with pytest.raises(NotNextcloud):
        await Files().read(
            account_over(net), "a.txt", Reader(Documents(nothing_read), cast("Any", ProgressLog()))
        )


def partial(declared: str, content: bytes) -> httpx2.Response:
    headers = {"ETag": '"e1"', "Last-Modified": MOMENT, "Content-Type": "text/plain"}
    if declared:
        headers["Content-Range"] = declared
    return httpx2.Response(206, headers=headers, content=content)


@settings(max_examples=40)
@given(st.integers(0, 30), st.integers(1, 40), st.integers(0, 39))
async def test_a_part_shorter_than_it_says_is_an_error_and_never_a_page(
    offset: int, length: int, came: int
) -> None:
    """RFC 9110 §15.3.7: Content-Range says which bytes are enclosed."""
    came = min(came, length - 1)
    declared = f"bytes {offset}-{offset + length - 1}/1000"
    account = account_over(network(partial(declared, b"x" * came)))

    with pytest.raises(Unreachable, match=f"after {came} of {length} bytes"):
        await account.files.read("a.txt", offset=offset, length=length)


@pytest.mark.parametrize("declared", ["", "bytes */100", "bytes 9-3/100", "lines 1-2/3"])
async def test_a_part_that_does_not_say_which_is_refused(declared: str) -> None:
    with pytest.raises(ServerFault, match="and not which"):
        await account_over(network(partial(declared, b"abc"))).files.read("a.txt", length=10)


async def test_a_part_before_the_one_that_was_asked_for_is_refused() -> None:
    with pytest.raises(ServerFault, match="another part"):
        await account_over(network(partial("bytes 0-2/100", b"abc"))).files.read("a.txt", offset=50, length=9)


async def test_a_whole_file_shorter_than_it_says_is_an_error() -> None:
    headers = {"ETag": '"e1"', "Last-Modified": MOMENT, "Content-Length": "9"}

    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(b"abc"))

    with pytest.raises(Unreachable, match="after 3 of 9 bytes"):
        await account_over(answer).files.read("a.txt", length=100)


async def test_a_part_in_place_of_a_whole_download_is_refused() -> None:
    account = account_over(network(partial("bytes 0-2/9", b"abc")))

    with pytest.raises(ServerFault, match="though all of it"):
        async with account.download.open("a.txt"):
            raise NotImplementedError


async def test_a_recorded_part_is_read() -> None:
    answer = recorded("webdav/get_range_206")

    chunk = await account_over(network(answer)).files.read("put_new.md", offset=2, length=3)

    assert (chunk.offset, len(chunk.data), chunk.total) == (2, 3, 10)
