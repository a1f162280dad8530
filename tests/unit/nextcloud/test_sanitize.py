# ruff: noqa: RUF001 - letters of other scripts are what is tried
import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.nextcloud.sanitize import (
    cited,
    cut,
    escape_hidden,
    grows_by,
    meant,
    named,
    quoted,
    shown,
)

#: DerivedCoreProperties.txt, Default_Ignorable_Code_Point.
DEFAULT_IGNORABLE = (
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0),
    *(*range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
)
#: PropList.txt, Prepended_Concatenation_Mark: format characters that are drawn.
DRAWN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
#: Texts with what is hidden in them more often than in others.
TEXTS = st.text(
    st.sampled_from(
        "a<U+202E>03C\n\r\t\x1b\u200b\u200c\u200d\u202e\ufe0f\u2764\u094d\u0915\u06cc\u0645\U000e0041\ud800"
    )
    | st.characters(),
    max_size=40,
)


@pytest.mark.parametrize("name", ["plain.txt", "Ünï cödé 日本 🎉.txt", "with space"])
def test_honest_names_stay_as_they_are(name: str) -> None:
    assert escape_hidden(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("invoice\u202egnp.exe", "invoice<U+202E>gnp.exe"),
        ("zero\u200bwidth", "zero<U+200B>width"),
        ("line\nbreak", "line<U+000A>break"),
        ("para\u2029graph", "para<U+2029>graph"),
        ("filler\u3164", "filler<U+3164>"),
        ("tag\U000e0041", "tag<U+E0041>"),
    ],
)
def test_hidden_characters_are_written_out(name: str, shown: str) -> None:
    assert escape_hidden(name) == shown


def test_a_long_name_is_cut_in_a_sentence() -> None:
    assert quoted("a") == "'a'"
    assert quoted("x" * 300) == "'" + "x" * 200 + "…'"


def test_every_control_format_and_ignorable_character_is_hidden() -> None:
    hidden = {
        code
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and code not in DRAWN
    }

    missed = [
        f"{code:04X}"
        for code in sorted({*hidden, *DEFAULT_IGNORABLE})
        if escape_hidden(f"a{chr(code)}b").isascii() is False
    ]
    missed_in_text = [
        code for code in {*hidden, *DEFAULT_IGNORABLE} - {9, 10} if chr(code) in shown(f"a{chr(code)}b\n")
    ]

    assert missed == missed_in_text == []


@pytest.mark.parametrize(
    "text",
    [
        *("👨‍👩‍👧", "❤️‍🔥", "👁️‍🗨️", "🏳️‍⚧️", "🏴‍☠️", "🐻‍❄️", "👩🏽‍🚀", "🧑🏿‍🤝‍🧑🏻", "1️⃣", "☺︎"),
        "".join(map(chr, (0x1F3F4, 0xE0067, 0xE0062, 0xE0073, 0xE0063, 0xE0074, 0xE007F))),
        # RFC 5892 A.1 and A.2: Persian, Devanagari, Malayalam, Sinhala; Bengali by The Unicode Standard 12.2.
        *("می\u200cخواهم", "خانه\u200cای", "क्\u200dष", "क्\u200cष", "ന്\u200d", "ශ්\u200dරී", "র\u200d্য", "ᠠ᠋"),
        *(
            "a\tb\r\nc\n",
            "old\rMac\r",
            "٪ \u06dd \u0600",
            "<U+0041> <U+110000> <U+202e> <U+0202E> <U+20",
            "Ünï 日本",
        ),
    ],
)
def test_what_a_reader_sees_or_a_language_needs_stays(text: str) -> None:
    assert shown(text) == text
    assert meant(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u200db", "a<U+200D>b"),
        ("ab\u200ccd", "ab<U+200C>cd"),
        ("👍\ufe0f\ufe0f", "👍\ufe0f<U+FE0F>"),
        ("a\ufe0f", "a<U+FE0F>"),
        ("👍\U000e0141", "👍<U+E0141>"),
        ("🏴\U000e0061\U000e007f", "🏴<U+E0061><U+E007F>"),
        ("क्\u200d\u200d", "क्\u200d<U+200D>"),
        ("葛\U000e0100", "葛<U+E0100>"),
        ("\x1b[31mred", "<U+001B>[31mred"),
        ("good\rbad\n", "good<U+000D>bad\n"),
        ("write <U+202E>", "write <U+003C>U+202E>"),
        ("\u0378\u200d", "\u0378<U+200D>"),
    ],
)
def test_what_hides_in_a_text_is_written_out_and_read_again(text: str, expected: str) -> None:
    assert shown(text) == expected
    assert meant(expected) == text


@settings(max_examples=100)
@given(TEXTS)
def test_what_is_shown_means_the_same_text(text: str) -> None:
    whole = text.encode("utf-8", "ignore").decode()

    assert meant(shown(whole)) == whole


@settings(max_examples=100)
@given(TEXTS)
def test_what_a_text_grows_by_is_never_underestimated(text: str) -> None:
    whole = text.encode("utf-8", "ignore").decode()
    written = json.dumps(whole, ensure_ascii=False).encode()

    assert len(json.dumps(shown(whole), ensure_ascii=False).encode()) <= len(written) + grows_by(written)


def test_a_text_is_cut_to_what_it_is_when_it_is_shown() -> None:
    assert cut("short", 5) == "short"
    assert cut("longer", 5) == "long…"
    assert cut("\u200b" * 10, 20) == "\u200b\u200b…"
    assert cited("a\u200b" * 100) == "'" + "a\u200b" * 22 + "a…'"


def test_spaces_around_names_and_line_ends_in_them_are_named() -> None:
    assert named(" a/b /c\td\r\u2028") == "<U+0020>a/b<U+0020>/c<U+0009>d\r\u2028"


def test_a_hostile_text_of_joiners_is_shown_in_time_that_grows_with_it() -> None:
    text = "ب" + "\u064b\u200c" * 50_000

    assert meant(shown(text)) == text
