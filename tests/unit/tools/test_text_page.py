import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.spelling import folded
from nextcloud_mcp_server.tools.answer import NEUTRALISED, safe
from nextcloud_mcp_server.tools.text_page import cut, snippet


@given(text=st.text(alphabet="aä日🎉\n\r ", max_size=300), limit=st.integers(min_value=1, max_value=50))
def test_following_next_offset_gives_every_byte_once(text: str, limit: int) -> None:
    parts: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = cut(text, offset=offset, limit=limit)
        parts.append(page.text)
        offset = page.next_offset

    assert "".join(parts) == text


def test_a_page_ends_at_a_line_where_that_does_not_make_it_tiny() -> None:
    assert cut("one\ntwo\nthree", offset=0, limit=10).text == "one\ntwo\n"
    assert cut("a\nbbbbbbbbbbbbbbbbbb", offset=0, limit=10).text == "a\nbbbbbbbb"


def test_a_page_of_a_long_line_ends_between_words() -> None:
    """Otherwise a text could place a consent link where a page ends, and neither page would hold it."""
    text = "word " * 5_999 + "https://cloud.example.org/login/v2/flow/abc and more"

    first = cut(text, offset=0, limit=30_000)
    second = cut(text, offset=first.next_offset or 0, limit=30_000)

    assert first.text == "word " * 5_999
    assert safe(second.text) == f"{NEUTRALISED} and more"
    assert cut("a bbbbbbbbbbbbbbbbbb", offset=0, limit=10).text == "a bbbbbbbb"


def test_an_offset_inside_a_character_moves_on_and_one_beyond_the_end_is_refused() -> None:
    assert cut("ä1", offset=1, limit=9).text == "1"
    assert cut("", offset=0, limit=9).size == 0
    with pytest.raises(InvalidInput, match="3 bytes"):
        cut("ä1", offset=4, limit=9)


def test_text_that_grows_in_json_gets_a_smaller_page() -> None:
    page = cut("\x01" * 30_000, offset=0, limit=30_000)

    assert len(json.dumps(page.text)) + len(page.text) < 80_000
    assert page.next_offset == len(page.text)


def test_a_snippet_shows_the_place_on_one_line() -> None:
    text = "x" * 100 + "\n\nthe  Needle here\n" + "y" * 200

    shown = snippet(text, text.index("Needle"))

    assert "the Needle here" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert snippet("short", None) == "short"


def test_texts_compare_however_they_were_typed() -> None:
    assert folded("A\u0308RGER") == folded("ärger")
