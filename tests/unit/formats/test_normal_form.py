"""Tests for normal forms."""

import unicodedata
from itertools import product
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.formats.normal_form import normalised, pieces

FORMS: tuple[Literal["NFC", "NFKD"], ...] = ("NFC", "NFKD")
#: Every character that is nothing but combining marks, once it is taken apart.
MARKS = [
    character
    for character in map(chr, (*range(0xD800), *range(0xE000, 0x110000)))
    if all(map(unicodedata.combining, unicodedata.normalize("NFKD", character)))
]


@pytest.mark.parametrize("form", FORMS)
@given(text=st.text(alphabet="aÄéßﬁ日각カﾞ \n\u0301\u0323\u1161=\u0338═", max_size=29))
def test_an_ordinary_text_is_normalised_whole(form: Literal["NFC", "NFKD"], text: str) -> None:
    assert normalised(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unit", ["e\u0301 ", "日本語\n", "각 ", "é"])
def test_a_long_text_is_normalised_as_its_pieces(form: Literal["NFC", "NFKD"], unit: str) -> None:
    text = unit * 100_000

    assert len(list(pieces(text))) > 1
    assert "".join(pieces(text)) == text
    assert normalised(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize(("form", "count"), list(product(FORMS, (29, 30, 31, 300))))
def test_no_character_is_lost(form: Literal["NFC", "NFKD"], count: int) -> None:
    text = "e" + "\u0323\u0301" * count + "e"

    assert unicodedata.normalize(form, normalised(form, text)) == unicodedata.normalize(form, text)


def test_every_combining_mark_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece is longer than two runs, whichever marks they are of."""
    longest = [0]
    normalize = unicodedata.normalize

    def measured(form: Literal["NFC", "NFKD"], piece: str) -> str:
        longest[0] = max(longest[0], len(piece))
        return normalize(form, piece)

    monkeypatch.setattr(unicodedata, "normalize", measured)
    normalised("NFKD", "".join(mark + other for mark, other in zip(MARKS, reversed(MARKS), strict=True)))

    assert len(MARKS) > 800
    assert longest[0] <= 60
