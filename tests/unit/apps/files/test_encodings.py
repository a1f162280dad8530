"""Files whose text is not UTF-8: read, paged and edited as they are (item 2: text that is not UTF-8)."""

import codecs
from typing import Any, cast

import httpx2
import pytest

from nextcloud_mcp_server.apps.files.resources import Files
from nextcloud_mcp_server.errors import InvalidInput, NotFound
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.resources.kind import Reader
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools.documents import Documents
from tests.dav_fakes import MOMENT, ProgressLog, account_in, call, http_over, nothing_read

CSV = "Name;Betrag\r\nMüller;12,50\r\nSchäfer;7\r\n"
#: What is in the file, which encoding is answered.
FILES = [
    (CSV.encode("cp1252"), "windows-1252"),
    (codecs.BOM_UTF16_LE + CSV.encode("utf-16-le"), "UTF-16LE with BOM"),
    (codecs.BOM_UTF16_BE + CSV.encode("utf-16-be"), "UTF-16BE with BOM"),
    (CSV.encode("utf-16-le"), "UTF-16LE"),
    (codecs.BOM_UTF8 + CSV.encode(), "UTF-8 with BOM"),
    (CSV.encode(), "UTF-8"),
]


def put(name: str, data: bytes) -> tuple[Sandbox, Account]:
    sandbox = Sandbox.demo()
    sandbox.state.users["alice"].files.put(name, data)
    return sandbox, account_in(sandbox)


async def stored(account: Account, name: str) -> bytes:
    return (await account.files.read(name, length=1_000_000)).data


@pytest.mark.parametrize(("data", "encoding"), FILES)
async def test_a_text_of_any_encoding_is_read_and_its_encoding_told(data: bytes, encoding: str) -> None:
    _, account = put("a.csv", data)

    read = await call(account, "nc_files_read_file", path="a.csv")

    assert (read.content, read.encoding, read.note) == (CSV, encoding, None)


async def test_no_part_of_a_text_in_utf_16_begins_between_two_bytes_of_a_character() -> None:
    """The last byte of U+0A05 and the first of U+0100 look like a line end, across two characters."""
    text = "first line\n" + "\u0a05\u0100" * 400
    _, account = put("a.txt", codecs.BOM_UTF16_BE + text.encode("utf-16-be"))
    _, other = put("a.txt", codecs.BOM_UTF16_LE + text.encode("utf-16-le"))

    for one in (account, other):
        parts: list[str] = []
        offset: int | None = 0
        while offset is not None:
            read = await call(one, "nc_files_read_file", path="a.txt", offset=offset, limit=200)
            parts.append(read.content)
            offset = read.next_offset
        assert "".join(parts) == text


@pytest.mark.parametrize(("data", "encoding"), FILES)
async def test_an_edit_keeps_encoding_mark_and_line_ends(data: bytes, encoding: str) -> None:
    _, account = put("a.csv", data)

    await call(
        account,
        "nc_files_edit_file",
        path="a.csv",
        old_text="Müller;12,50\nSchäfer",
        new_text="Möller;1\nGröße",
    )

    read = await call(account, "nc_files_read_file", path="a.csv")
    mark = next(
        (m for m in (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) if data.startswith(m)), b""
    )
    assert (read.content, read.encoding) == (
        CSV.replace("Müller;12,50\r\nSchäfer", "Möller;1\r\nGröße"),
        encoding,
    )
    assert (await stored(account, "a.csv")).startswith(mark)


async def test_an_edit_of_an_old_macintosh_file_keeps_its_line_ends() -> None:
    _, account = put("a.txt", b"one\rtwo\rthree")

    await call(account, "nc_files_edit_file", path="a.txt", old_text="one\ntwo", new_text="1\n2")

    assert await stored(account, "a.txt") == b"1\r2\rthree"


async def test_an_edit_of_damaged_utf8_leaves_the_damage_as_it_is() -> None:
    damaged = "Grüße aus Köln, schöne Wörter".encode() + b"\xff end"
    _, account = put("a.txt", damaged)

    await call(account, "nc_files_edit_file", path="a.txt", old_text="end", new_text="Ende")

    assert await stored(account, "a.txt") == damaged.replace(b"end", b"Ende")


async def test_a_character_that_the_encoding_lacks_is_named_with_its_place() -> None:
    _, account = put("a.csv", CSV.encode("cp1252"))

    with pytest.raises(
        InvalidInput, match=r"windows-1252, which has no '→' \(U\+2192, character 3 of 'new_text'"
    ):
        await call(account, "nc_files_edit_file", path="a.csv", old_text="Müller", new_text="ü →")

    assert await stored(account, "a.csv") == CSV.encode("cp1252")


async def test_bytes_that_an_edit_would_lose_are_left_alone() -> None:
    # A lone half of a pair has no character (The Unicode Standard, 3.9, D72).
    data = codecs.BOM_UTF16_LE + "Müller und so weiter ".encode("utf-16-le") + b"\x00\xd8"
    _, account = put("a.txt", data)

    with pytest.raises(InvalidInput, match="not UTF-16LE"):
        await call(account, "nc_files_edit_file", path="a.txt", old_text="und", new_text="oder")

    assert await stored(account, "a.txt") == data


async def test_binary_data_is_not_edited() -> None:
    _, account = put("a.bin", bytes(range(256)))

    with pytest.raises(InvalidInput, match="not text"):
        await call(account, "nc_files_edit_file", path="a.bin", old_text="a", new_text="b")


TEXTS = {
    "utf-8": "größere Wörter\n日本語🎉\n",
    "utf-16-le": "größere Wörter\n日本語🎉\nਊ",
    "cp1252": "größere Wörter für Müller\n",
    "cp1251": "обычный русский текст\n",
    "cp932": "これは日本語のテキストです。表ソ\n",
    "gb18030": "这是一个中文文本\uff0c明天有会议🎉\n",
}


@pytest.mark.parametrize("codec", sorted(TEXTS))
async def test_following_next_offset_gives_the_text_of_any_encoding_back(codec: str) -> None:
    text = TEXTS[codec] * 6
    mark = codecs.BOM_UTF16_LE if codec == "utf-16-le" else b""
    _, account = put("long.txt", mark + text.encode(codec))
    parts: list[str] = []
    offset: int | None = 0

    while offset is not None:
        read = await call(account, "nc_files_read_file", path="long.txt", offset=offset, limit=37)
        parts.append(read.content)
        offset = read.next_offset

    assert "".join(parts) == text
    assert len(parts) > 3


async def test_a_page_far_inside_a_file_of_mostly_ascii_is_read_in_the_files_encoding() -> None:
    text = "plain line\n" * 5_000 + "Müller zahlt für Größe\n" * 20
    _, account = put("a.txt", text.encode("cp1252"))

    read = await call(account, "nc_files_read_file", path="a.txt", offset=55_000)

    assert (read.content, read.encoding) == ("Müller zahlt für Größe\n" * 20, "windows-1252")


async def test_a_later_page_is_one_request_and_the_beginning_of_another_version_is_read_again() -> None:
    western, cyrillic = "Müller zahlt\n" * 5_000, "Это письмо на стене\n" * 3_600
    sandbox, account = put("a.txt", western.encode("cp1252"))

    async def page(offset: int) -> tuple[int, str, str]:
        sandbox.requests.clear()
        read = await call(account, "nc_files_read_file", path="a.txt", offset=offset, limit=20)
        return sandbox.requests.total, read.encoding, read.content

    first = await page(0)
    later = await page(13)
    sandbox.state.users["alice"].files.put("a.txt", cyrillic.encode("cp1251"), modified_at=1)
    changed = await page(20)
    and_later = await page(40)

    assert first == (1, "windows-1252", "Müller zahlt\n")
    assert later == (1, "windows-1252", "Müller zahlt\n")
    assert changed == (2, "windows-1251", "Это письмо на стене\n")
    assert and_later == (1, "windows-1251", "Это письмо на стене\n")


async def test_a_later_page_of_a_file_without_etag_asks_for_the_beginning_each_time() -> None:
    text = ("Müller zahlt\n" * 5_000).encode("cp1252")

    def answer(request: httpx2.Request) -> httpx2.Response:
        first, last = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
        part = text[first : last + 1]
        ranged = {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(text)}"}
        asked.append(first)
        return httpx2.Response(
            206, headers=ranged | {"Last-Modified": MOMENT}, stream=httpx2.ByteStream(part)
        )

    asked: list[int] = []
    account = Account(http_over(answer))
    for offset in (0, 13, 26):
        await call(account, "nc_files_read_file", path="a.txt", offset=offset, limit=20)

    assert asked == [0, 13, 0, 26, 0]


@pytest.mark.parametrize(("data", "_encoding"), FILES)
async def test_a_resource_of_any_encoding_is_text(data: bytes, _encoding: str) -> None:
    _, account = put("a.csv", data)
    reader = Reader(Documents(nothing_read), cast("Any", ProgressLog()))

    assert (await Files().read(account, "a.csv", reader)).data == CSV


async def test_a_collective_page_of_another_encoding_is_read_and_told() -> None:
    sandbox = Sandbox.demo()
    sandbox.state.users["alice"].files.put(
        "/.Collectives/Neighbourhood/Old.md", "Müller für alle\n".encode("cp1252")
    )
    account = account_in(sandbox)
    listed = await call(account, "nc_collectives_list_pages", collective_id=1)
    page = next(row for row in listed.pages if row.title == "Old")

    read = await call(account, "nc_collectives_get_page", collective_id=1, page_id=page.id)

    assert read.content == "Müller für alle\n"


@pytest.mark.parametrize(("data", "encoding"), FILES)
async def test_replacing_a_text_says_where_it_is_encoded_otherwise_from_now_on(
    data: bytes, encoding: str
) -> None:
    _, account = put("a.csv", data)
    etag = (await call(account, "nc_files_get_info", path="a.csv")).etag

    written = await call(account, "nc_files_write_file", path="a.csv", content="Größe;1\r\n", etag=etag)

    assert await stored(account, "a.csv") == "Größe;1\r\n".encode()
    if encoding == "UTF-8":
        assert written.note is None
    else:
        assert written.note.startswith(f"The file was {encoding} and is UTF-8 now;")


@pytest.mark.parametrize(
    ("data", "content"),
    [(CSV.encode("cp1252"), "plain\n"), (b"\x89PNG\0\0", "now a text: ü"), (b"", "ü"), (b"ascii", "ü")],
    ids=["the same bytes in both", "no text before", "empty before", "ascii before"],
)
async def test_replacing_needs_no_word_where_no_reader_can_be_misled(data: bytes, content: str) -> None:
    _, account = put("a.csv", data)
    etag = (await call(account, "nc_files_get_info", path="a.csv")).etag

    written = await call(account, "nc_files_write_file", path="a.csv", content=content, etag=etag)

    assert written.note is None


async def test_replacing_what_is_gone_is_refused_as_before() -> None:
    sandbox, account = put("a.csv", b"x")
    etag = (await call(account, "nc_files_get_info", path="a.csv")).etag
    await call(account, "nc_files_delete_item", path="a.csv")

    with pytest.raises(NotFound):
        await call(account, "nc_files_write_file", path="a.csv", content="ü", etag=etag)

    assert sandbox.state.users["alice"].files.find("a.csv") is None
