import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.tools.file_text import LOOKAHEAD, MAX_TEXT_BYTES, cut

TEXTS = st.text(st.sampled_from('ab \n\r"\\é日🎉\u200b'), max_size=400)


def pages(data: bytes, limit: int) -> list[tuple[int, int, str]]:
    """Read as the tool does: a window from the server, cut, then on from its end."""
    found: list[tuple[int, int, str]] = []
    offset = 0
    while True:
        window = data[offset : offset + limit + LOOKAHEAD]
        last = offset + len(window) >= len(data)
        part = cut(window, limit=limit, inside=offset > 0, is_last=last)
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


def test_a_page_ends_with_a_line_when_that_costs_less_than_half_of_it() -> None:
    data = b"one\ntwo\nthree three three three\n"

    short = cut(data, limit=10, inside=False, is_last=True)
    long = cut(data[8:], limit=10, inside=False, is_last=True)

    assert short is not None
    assert long is not None
    assert (short.text, long.text) == ("one\ntwo\n", "three thre")


@pytest.mark.parametrize(("skip", "rest"), [(1, "é日🎉"), (2, "日🎉"), (3, "日🎉"), (4, "🎉"), (8, "")])
def test_an_offset_inside_a_character_begins_with_the_next(skip: int, rest: str) -> None:
    data = "aé日🎉".encode()[skip:]

    part = cut(data, limit=100, inside=True, is_last=True)

    assert part is not None
    assert part.text == rest


def test_text_that_grows_in_json_gets_smaller_pages() -> None:
    data = b'"' * 2 * MAX_TEXT_BYTES

    part = cut(data, limit=MAX_TEXT_BYTES, inside=False, is_last=False)

    assert part is not None
    assert len(part.text) + len(json.dumps(part.text)) <= 72_000


def test_a_few_bytes_that_are_no_utf8_are_shown_and_told() -> None:
    part = cut(b"caf\xe9 au lait, a long line of it\n", limit=100, inside=False, is_last=True)

    assert part is not None
    assert part.text.startswith("caf\ufffd au lait")
    assert not part.exact


def test_a_character_cut_off_by_the_end_of_the_file_is_shown_broken() -> None:
    part = cut(b"a long enough line of text, then \xf0\x9f", limit=100, inside=False, is_last=True)

    assert part is not None
    assert part.text.endswith("\ufffd")


@pytest.mark.parametrize("data", [b"text\0text", b"\x80\x81\x82" * 20, bytes(range(1, 256))])
def test_binary_data_is_no_text(data: bytes) -> None:
    assert cut(data, limit=1000, inside=False, is_last=True) is None
