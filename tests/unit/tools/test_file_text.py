import codecs
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.documents.charset import UTF8, Charset
from nextcloud_mcp_server.tools.file_text import LOOKAHEAD, MAX_TEXT_BYTES, cut

TEXTS = st.text(st.sampled_from('ab \n\r"\\é日🎉\u200b'), max_size=400)


#: Encodings, each with letters that it holds; those of several bytes with some whose last byte is ASCII.
CHARSETS = [
    (Charset("utf-8"), 'ab \n\r"\\é日🎉'),
    (Charset("utf-8", codecs.BOM_UTF8), "a\né日🎉"),
    (Charset("utf-16-le", codecs.BOM_UTF16_LE), "a\n\r é日🎉\u0a0a"),
    (Charset("utf-16-be", codecs.BOM_UTF16_BE), "a\n\r é日🎉\u0a0a"),
    (Charset("utf-32-le", codecs.BOM_UTF32_LE), "a\n é日🎉"),
    (Charset("cp1252"), "a\n éßü€"),
    (Charset("cp1251"), "a\n жЯ"),
    (Charset("cp932"), "a\n 日表ソ｡"),
    (Charset("gb18030"), "a\n 会議€🎉"),
    (Charset("big5"), "a\n 會功許"),
    (Charset("euc_jp"), "a\n 日本ソ"),
    (Charset("cp949"), "a\n 한글"),
]


def pages(data: bytes, limit: int, charset: Charset = UTF8) -> list[tuple[int, int, str]]:
    """Read as the tool does: a window from the server, cut, then on from its end."""
    found: list[tuple[int, int, str]] = []
    offset = 0
    while True:
        window = data[offset : offset + limit + LOOKAHEAD]
        last = offset + len(window) >= len(data)
        part = cut(window, limit=limit, offset=offset, is_last=last, charset=charset)
        assert part is not None
        found.append((offset + part.start, offset + part.end, part.text))
        if last and part.end == len(window):
            return found
        offset += part.end


@given(TEXTS, st.integers(1, 60))
def test_following_the_pages_gives_the_same_bytes_back(text: str, limit: int) -> None:
    data = text.encode()

    found = pages(data, limit)

    assert "".join(page for _, _, page in found).encode() == data
    assert [start for start, _, _ in found] == [0, *(end for _, end, _ in found[:-1])]


@given(TEXTS, st.integers(4, 60))
def test_no_page_is_larger_than_asked_for(text: str, limit: int) -> None:
    found = pages(text.encode(), limit)

    assert all(end - start <= limit for start, end, _ in found)


@pytest.mark.parametrize("charset", [UTF8, Charset("utf-16-le"), Charset("gb18030"), Charset("cp932")])
def test_a_page_of_a_long_line_ends_between_words(charset: Charset) -> None:
    """Otherwise a text could place a consent link where a page ends, and neither page would hold it."""
    text = "日本 " * 40 + "https://cloud.example.org/login/v2/flow/abc"
    limit = len(text.encode(charset.codec)) - 8 * charset.unit

    found = [page for _, _, page in pages(text.encode(charset.codec), limit, charset)]

    assert found == ["日本 " * 40, "https://cloud.example.org/login/v2/flow/abc"]


def test_a_page_ends_with_a_line_when_that_costs_less_than_half_of_it() -> None:
    data = b"one\ntwo\nthree three three three\n"

    short = cut(data, limit=10, offset=0, is_last=True)
    long = cut(data[8:], limit=10, offset=0, is_last=True)

    assert short is not None
    assert long is not None
    assert (short.text, long.text) == ("one\ntwo\n", "three ")


@pytest.mark.parametrize(("skip", "rest"), [(1, "é日🎉"), (2, "日🎉"), (3, "日🎉"), (4, "🎉"), (8, "")])
def test_an_offset_inside_a_character_begins_with_the_next(skip: int, rest: str) -> None:
    data = "aé日🎉".encode()[skip:]

    part = cut(data, limit=100, offset=skip, is_last=True)

    assert part is not None
    assert part.text == rest


def test_text_that_grows_in_json_gets_smaller_pages() -> None:
    data = b'"' * 2 * MAX_TEXT_BYTES

    part = cut(data, limit=MAX_TEXT_BYTES, offset=0, is_last=False)

    assert part is not None
    assert len(part.text) + len(json.dumps(part.text)) <= 72_000


def test_a_few_bytes_that_are_no_utf8_are_shown_and_told() -> None:
    part = cut(b"caf\xe9 au lait, a long line of it\n", limit=100, offset=0, is_last=True)

    assert part is not None
    assert part.text.startswith("caf\ufffd au lait")
    assert not part.exact


def test_a_character_cut_off_by_the_end_of_the_file_is_shown_broken() -> None:
    part = cut(b"a long enough line of text, then \xf0\x9f", limit=100, offset=0, is_last=True)

    assert part is not None
    assert part.text.endswith("\ufffd")


@pytest.mark.parametrize("data", [b"text\0text", b"\x80\x81\x82" * 20, bytes(range(1, 256))])
def test_binary_data_is_no_text(data: bytes) -> None:
    assert cut(data, limit=1000, offset=0, is_last=True) is None


@st.composite
def encoded(draw: st.DrawFn) -> tuple[str, Charset]:
    """Make a text, and an encoding that holds it."""
    charset, letters = draw(st.sampled_from(CHARSETS))
    return draw(st.text(st.sampled_from(letters), max_size=200)), charset


@settings(max_examples=200)
@given(encoded(), st.integers(1, 40))
def test_following_the_pages_gives_every_text_back_whatever_its_encoding(
    made: tuple[str, Charset], limit: int
) -> None:
    text, charset = made
    data = charset.close(text)

    found = pages(data, limit, charset)

    assert "".join(page for _, _, page in found) == text
    assert [start for start, _, _ in found] == [0, *(end for _, end, _ in found[:-1])]


@pytest.mark.parametrize(("skip", "rest"), [(1, "日🎉"), (2, "日🎉"), (3, "🎉"), (6, ""), (7, "")])
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_an_offset_inside_a_wide_character_begins_with_the_next(codec: str, skip: int, rest: str) -> None:
    data = "é日🎉".encode(codec)[skip:]

    part = cut(data, limit=100, offset=skip, is_last=True, charset=Charset(codec))

    assert part is not None
    assert part.text == rest
