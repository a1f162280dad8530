import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.formats.character_references import unescape


@pytest.mark.parametrize("number", ["9" * 5_000, "x" + "F" * 5_000, "1114112", "x110000", "9" * 5_000 + ";"])
def test_a_number_beyond_the_last_code_point_is_replaced_however_long_it_is(number: str) -> None:
    assert unescape(f"a&#{number}") == "a\ufffd"


@pytest.mark.parametrize("zeros", [0, 1, 5_000])
def test_leading_zeros_do_not_count(zeros: int) -> None:
    assert unescape(f"&#{'0' * zeros}47;&#x{'0' * zeros}2F;") == "//"


@given(st.text(alphabet="&#xX0123456789abcF;amplt ", max_size=60))
def test_everything_else_is_decoded_as_the_standard_library_does(text: str) -> None:
    assert unescape(text) == html.unescape(text)
