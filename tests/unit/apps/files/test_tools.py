import base64
import json
import tracemalloc
from collections.abc import AsyncIterator

import httpx2
import pytest

from nextcloud_mcp_server.apps.files.read import MAX_IMAGE_BYTES
from nextcloud_mcp_server.apps.files.tools import files
from nextcloud_mcp_server.errors import InvalidInput, OutOfRange
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.file_results import FileFacts, FileImage, FileText
from tests.dav_fakes import (
    MOMENT,
    SECONDS,
    account_in,
    account_over,
    call,
    entry,
    http_over,
    multistatus,
    network,
    recorded,
)

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def answered(data: bytes, content_type: str = "text/plain", total: int | None = None) -> httpx2.Response:
    """Answer the first bytes of a file."""
    headers = {
        "ETag": '"e1"',
        "Last-Modified": MOMENT,
        "Content-Type": content_type,
        "Content-Range": f"bytes 0-{len(data) - 1}/{len(data) if total is None else total}",
    }
    return httpx2.Response(206, headers=headers, content=data)


def size_of(result: object) -> int:
    sent = answer.result(result)  # pyright: ignore[reportArgumentType]
    texts = sum(len(block.text.encode()) for block in sent.content if block.type == "text")
    return texts + len(answer.compact(sent.structured_content).encode())


def test_there_are_twelve_tools_in_eight_kilobytes() -> None:
    listed = [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": tool.arguments.schema,
            "annotations": {
                "title": tool.title,
                "readOnlyHint": tool.read_only,
                "destructiveHint": tool.destructive,
                "idempotentHint": tool.idempotent,
                "openWorldHint": tool.open_world,
            },
        }
        for tool in files.tools
    ]

    assert len({tool.name for tool in files.tools}) == len(files.tools) == 12
    assert len(json.dumps(listed, separators=(",", ":"))) <= 8_000
    assert max(len(json.dumps(each)) for each in listed) <= 1_200


def test_reading_tools_need_the_reading_scope_and_changing_ones_the_other() -> None:
    for tool in files.tools:
        assert tool.toolset == "files"
        assert tool.scopes == {"files:read" if tool.read_only else "files:write"}


def test_no_tool_takes_a_person_or_a_host() -> None:
    names = {name for tool in files.tools for name in tool.arguments.schema["properties"]}

    assert not names & {"uid", "user", "user_id", "host", "url"}


async def test_a_page_of_a_folder_costs_one_request_and_few_bytes() -> None:
    body = [entry("Docs", folder=True), *(entry(f"Docs/file {n:03}.txt") for n in range(250))]
    net = network(multistatus(body))

    page = await call(account_over(net), "nc_files_list_folder", path="Docs")

    assert len(net.seen) == 1
    assert (len(page.items), page.total) == (100, 250)
    assert page.model_dump(mode="json", exclude_none=True)["items"][0] == {
        "name": "file 000.txt",
        "type": "application/octet-stream",
        "size": 3,
        "modified": "2026-11-27T21:03:53Z",
    }
    assert size_of(page) < 25_000


async def test_the_pages_of_a_folder_give_every_child_once() -> None:
    body = [entry("", folder=True), *(entry(f"{n:03}") for n in range(25))]
    net = network(*(multistatus(body) for _ in range(3)))
    account, cursor = account_over(net), None
    names: list[str] = []

    for _ in range(3):
        page = await call(account, "nc_files_list_folder", limit=10, cursor=cursor)
        names += [row.name for row in page.items]
        cursor = page.cursor

    assert names == [f"{n:03}" for n in range(25)]
    assert cursor is None


async def test_the_longest_names_make_shorter_pages_and_never_a_result_that_is_too_large() -> None:
    body = [entry("", folder=True), *(entry(f"{n:03}" + '"' * 252) for n in range(100))]
    net = network(*(multistatus(body) for _ in range(9)))
    account, cursor = account_over(net), None
    names: list[str] = []

    while cursor or not names:
        page = await call(account, "nc_files_list_folder", cursor=cursor)
        assert size_of(page) <= 80_000
        names += [row.name for row in page.items]
        cursor = page.cursor

    assert len(set(names)) == len(names) == 100
    assert len(net.seen) < 4


@pytest.mark.parametrize(
    "cursor",
    ["nonsense", "####", "WyJ4IiwwLCJ4Il0", base64.urlsafe_b64encode(b"[1,2,3]").decode(), "é"],
)
async def test_a_cursor_that_is_not_of_this_list_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="without cursor"):
        await call(account_over(network()), "nc_files_list_folder", cursor=cursor)


async def test_a_cursor_of_another_folder_is_refused() -> None:
    body = [entry("", folder=True), entry("a"), entry("b")]
    account = account_over(network(multistatus(body)))
    page = await call(account, "nc_files_list_folder", limit=1)

    with pytest.raises(InvalidInput):
        await call(account, "nc_files_list_folder", path="Other", limit=1, cursor=page.cursor)


async def test_names_that_deceive_are_shown_with_what_they_hide() -> None:
    name = "invoice\u202egnp.exe"
    account = account_over(network(multistatus([entry("", folder=True), entry(name), entry("plain")])))

    page = await call(account, "nc_files_list_folder")

    assert [(row.name, row.shown_as) for row in page.items] == [
        (name, None),
        ("plain", None),
    ]
    shown = answer.result(page).structured_content
    assert shown is not None
    assert shown["items"][0]["name"] == "invoice<U+202E>gnp.exe"


async def test_a_folder_tells_its_room() -> None:
    quota = "<d:quota-used-bytes>5</d:quota-used-bytes><d:quota-available-bytes>{}</d:quota-available-bytes>"
    bodies = [multistatus([entry("", folder=True, extra=quota.format(left))]) for left in ("-3", "9", "-2")]
    account = account_over(network(*bodies, multistatus([entry("", folder=True)])))

    rooms = [(await call(account, "nc_files_get_info", path="/")).quota for _ in range(4)]

    assert [(room.used, room.available, room.unlimited) for room in rooms] == [
        (5, None, True),
        (5, 9, None),
        (5, None, None),
        (None, None, None),
    ]


async def test_a_file_tells_what_is_known_in_words() -> None:
    extra = (
        "<oc:permissions>SRGW</oc:permissions><oc:owner-display-name>Bob</oc:owner-display-name>"
        "<oc:share-types><oc:share-type>3</oc:share-type><oc:share-type>99</oc:share-type></oc:share-types>"
        "<d:getcontenttype>text/markdown</d:getcontenttype>"
    )
    account = account_over(network(multistatus([entry("a.md", extra=extra)])))

    info = await call(account, "nc_files_get_info", path="a.md")

    assert info.permissions == ["read", "write", "share"]
    assert (info.owner, info.shared_with_me, info.shared_by) == (
        "Bob",
        True,
        ["public link", "something else"],
    )
    assert (info.type, info.etag, info.quota, info.note) == ("text/markdown", f"e1~3~{SECONDS}", None, None)


async def test_a_storage_without_etags_is_said_to_be_one() -> None:
    """B19."""
    bare = httpx2.Response(200, headers={"Last-Modified": MOMENT}, content=b"abc")
    account = account_over(network(multistatus([entry("a", etag=None)]), bare))

    info = await call(account, "nc_files_get_info", path="a")
    read = await call(account, "nc_files_read_file", path="a")

    assert "no etag" in info.note
    assert "no etag" in read.note
    assert info.etag == f"~3~{SECONDS}"


async def test_a_text_is_read_with_one_request() -> None:
    net = network(answered(b"# Hello\n", "text/markdown;charset=UTF-8"))

    read = await call(account_over(net), "nc_files_read_file", path="a.md")

    assert net.methods == ["GET"]
    assert isinstance(read, FileText)
    assert read.model_dump(mode="json", exclude_none=True) == {
        "content": "# Hello\n",
        "path": "a.md",
        "type": "text/markdown",
        "encoding": "UTF-8",
        "size": 8,
        "modified": "2026-11-27T21:03:53Z",
        "etag": f"e1~8~{SECONDS}",
        "offset": 0,
        "truncated": False,
    }


async def test_following_next_offset_gives_the_same_bytes_back() -> None:
    """B73: a document larger than one answer can be read to its end."""
    sandbox = Sandbox.demo()
    text = "".join(f'{n}: é日🎉 "quoted"\r\n' for n in range(9_000)).encode()
    sandbox.state.users["alice"].files.put("long.txt", text)
    account, offset = account_in(sandbox), 0
    parts: list[bytes] = []

    while offset is not None:
        read = await call(account, "nc_files_read_file", path="long.txt", offset=offset)
        assert size_of(read) <= 80_000
        assert read.content.endswith("\n")
        parts.append(read.content.encode())
        offset = read.next_offset

    assert b"".join(parts) == text
    assert len(parts) > 5


async def test_a_limit_and_an_offset_choose_a_part() -> None:
    sandbox = Sandbox.demo()
    sandbox.state.users["alice"].files.put("a.txt", "aé\nbcd\n".encode())
    account = account_in(sandbox)

    first = await call(account, "nc_files_read_file", path="a.txt", limit=3)
    inside = await call(account, "nc_files_read_file", path="a.txt", offset=2, limit=2)
    with pytest.raises(OutOfRange):
        await call(account, "nc_files_read_file", path="a.txt", offset=99)

    assert (first.content, first.truncated, first.next_offset) == ("aé", True, 3)
    assert (inside.content, inside.offset, inside.next_offset) == ("\nb", 3, 5)


async def test_an_empty_file_is_an_empty_text() -> None:
    sandbox = Sandbox.demo()
    sandbox.state.users["alice"].files.put("empty", b"")

    read = await call(account_in(sandbox), "nc_files_read_file", path="empty")

    assert (read.content, read.size, read.truncated, read.next_offset) == ("", 0, False, None)


async def test_broken_text_is_shown_with_a_warning() -> None:
    account = account_over(network(answered("café, and more text than thät\n".encode() + b"\xff")))

    read = await call(account, "nc_files_read_file", path="a.txt")

    assert read.content == "café, and more text than thät\n\ufffd"
    assert "not UTF-8" in read.note


@pytest.mark.parametrize(
    ("start", "mime_type"),
    [
        (PIXEL, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_a_small_picture_is_shown_by_what_it_is_and_not_by_its_name(
    start: bytes, mime_type: str
) -> None:
    net = network(answered(start, "application/octet-stream"))

    image = await call(account_over(net), "nc_files_read_file", path="Photos/a.PNG")

    assert net.methods == ["GET"]
    assert isinstance(image, FileImage)
    assert (image.mime_type, image.data, image.size) == (mime_type, start, len(start))
    assert size_of(image) < 1_000


def preview(size: int = len(PIXEL)) -> httpx2.Response:
    return httpx2.Response(
        200, headers={"Content-Type": "image/png"}, content=PIXEL + bytes(size - len(PIXEL))
    )


async def test_a_large_picture_is_shown_by_a_smaller_one_that_nextcloud_makes() -> None:
    whole = answered(PIXEL + bytes(MAX_IMAGE_BYTES - len(PIXEL)), "image/png", total=9_000_000)
    found = multistatus([entry("a.png", extra="<oc:fileid>42</oc:fileid>")])
    net = network(whole, found, preview(MAX_IMAGE_BYTES + 1), preview())

    image = await call(account_over(net), "nc_files_read_file", path="a.png")

    assert isinstance(image, FileImage)
    assert (image.data, image.mime_type, image.size) == (PIXEL, "image/png", 9_000_000)
    assert image.note == (
        "This is a picture of 9000000 bytes; what is shown is a preview of it, at most 512 pixels wide and high."
    )
    assert net.seen[0].headers["Range"] == f"bytes=0-{MAX_IMAGE_BYTES - 1}"
    assert net.seen[2].url.path == "/index.php/core/preview"
    assert dict(net.seen[2].url.params) == {
        "fileId": "42",
        "x": "1024",
        "y": "1024",
        "a": "1",
        "forceIcon": "0",
    }


async def test_a_picture_that_clients_cannot_show_is_shown_by_a_preview_too() -> None:
    found = multistatus([entry("a.heic", extra="<oc:fileid>42</oc:fileid>")])
    net = network(answered(b"\0\0\0\x18ftypheic", "image/heic"), found, preview())

    assert isinstance(await call(account_over(net), "nc_files_read_file", path="a.heic"), FileImage)


@pytest.mark.parametrize(
    "answers",
    [
        [recorded("misc/preview_404")],
        [httpx2.Response(200, content=b"<svg/>")],
        [preview(MAX_IMAGE_BYTES + 1)] * 3,
    ],
)
async def test_a_large_picture_without_a_preview_is_only_described(answers: list[httpx2.Response]) -> None:
    whole = answered(PIXEL + bytes(MAX_IMAGE_BYTES - len(PIXEL)), "image/png", total=9_000_000)
    net = network(whole, multistatus([entry("a.png")]), *answers)

    facts = await call(account_over(net), "nc_files_read_file", path="a.png")

    assert isinstance(facts, FileFacts)
    assert facts.note == (
        "This is a picture of 9000000 bytes, which can't be shown here, and Nextcloud made no smaller one of it."
    )


async def test_a_text_named_like_a_picture_is_a_text() -> None:
    account = account_over(network(answered(b"not a picture\n", "image/png")))

    read = await call(account, "nc_files_read_file", path="a.png")

    assert read.content == "not a picture\n"


@pytest.mark.parametrize(
    ("data", "content_type", "words"),
    [
        (b"\0\1\2", "application/octet-stream", "binary file of 3 bytes"),
    ],
)
async def test_what_cannot_be_read_is_described(data: bytes, content_type: str, words: str) -> None:
    account = account_over(network(answered(data, content_type)))

    facts = await call(account, "nc_files_read_file", path="a")

    assert isinstance(facts, FileFacts)
    assert words in facts.note
    assert facts.etag.startswith("e1~")


async def test_an_unknown_size_is_said_to_be_unknown() -> None:
    headers = {"ETag": '"e1"', "Content-Range": "bytes 0-1/*"}
    seen = multistatus([entry("a", size=None)])
    account = account_over(network(httpx2.Response(206, headers=headers, content=b"\0\1"), seen))

    facts = await call(account, "nc_files_read_file", path="a")

    assert "unknown number of bytes" in facts.note
    assert facts.type == "application/octet-stream"


async def test_a_page_of_200_megabytes_stays_small_even_when_the_server_ignores_the_range() -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(3_200):
            yield b"x" * 65_535 + b"\n"

    def whole(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"ETag": '"e1"', "Content-Length": "209715200"}, content=body())

    account = Account(http_over(whole))
    tracemalloc.start()
    try:
        read = await call(account, "nc_files_read_file", path="big.log", offset=104_857_600)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert read.size == 209_715_200
    assert len(read.content) == 30_000
    assert peak < 4_000_000


async def test_a_search_goes_on_where_it_stopped() -> None:
    net = network(
        recorded("webdav/search_like_limit5"),
        # So it is asked whether there may be encrypted folders.
        httpx2.Response(404),
        recorded("webdav/search_like_limit5_offset5"),
    )
    account = account_over(net)

    first = await call(account, "nc_files_search_items", name=".txt", limit=4)
    second = await call(account, "nc_files_search_items", name=".txt", limit=4, cursor=first.cursor)

    assert [row.path for row in first.items][:2] == ["Rec/empty.txt", "Rec/a+c.txt"]
    assert len(first.items) == 4
    assert second.items
    assert ">4</s:firstresult>" in net.seen[-1].content.decode()


async def test_a_search_finds_by_kind_size_date_and_favorites() -> None:
    account = account_in(Sandbox.demo())

    by_name = await call(account, "nc_files_search_items", name="readme", kind="file")
    favorites = await call(account, "nc_files_search_items", favorite=True)
    none = await call(
        account, "nc_files_search_items", modified_after="2100-01-01T00:00:00+02:00", min_size=1
    )

    assert {row.path for row in by_name.items} == {"Readme.md", ".Collectives/Neighbourhood/Readme.md"}
    assert favorites.items
    assert all(row.favorite for row in favorites.items)
    assert (none.items, none.cursor) == ([], None)


@pytest.mark.parametrize("moment", ["yesterday", "2026-13-01", "0001-01-01T00:00:00+14:00"])
async def test_a_date_that_is_none_is_refused(moment: str) -> None:
    with pytest.raises(InvalidInput, match="'modified_before' must be a date"):
        await call(account_over(network()), "nc_files_search_items", name="a", modified_before=moment)
