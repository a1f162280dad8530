"""Which encoding bytes are in; the expected codec of each is what Python encoded it with."""

import codecs
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.documents import charset
from nextcloud_mcp_server.documents.charset import UTF8, Charset
from tests.document_files import read

SAMPLES = [
    ("Müller;5\n", "cp1252"),
    ("Name;Betrag\r\nMüller;12\r\nSchäfer;7\r\n", "cp1252"),
    ("Größe;Straße\nMüller;Köln\n", "cp1252"),
    ("ü", "cp1252"),
    ("café", "cp1252"),
    ("Zürich", "cp1252"),
    ("años", "cp1252"),
    ("Å är en ö", "cp1252"),
    ("hyvää päivää", "cp1252"),
    ("MÜLLER; GRÖSSE", "cp1252"),
    ("20°C, 5µm, §5, 3½", "cp1252"),
    ("Preis: 5\xa0€ \u2013 „gut“", "cp1252"),
    ("Élève; où est le café déjà payé à Noël ?\n", "cp1252"),
    ("El niño comió piñas en España, ¿qué pasó mañana?\n", "cp1252"),
    ("São Paulo, coração, não é\n", "cp1252"),
    ("25 °C", "cp1252"),
    ("25°C; ±2\n", "cp1252"),
    ("€\n", "cp1252"),
    ("It\u2019s \u201cfine\u201d \u2013 5 €\n", "cp1252"),
    ("\u201cWell\u2026\u201d, 3 \xd7 4 = £12\u2122\n", "cp1252"),
    ("Zażółć gęślą jaźń, książka i źródło są tutaj\n", "cp1250"),
    ("Příliš žluťoučký kůň úpěl ďábelské ódy\n", "cp1250"),
    ("Árvíztűrő tükörfúrógép, őszi eső\n", "cp1250"),
    ("Привет\n", "cp1251"),
    ("Привет, как дела? Это обычный текст.\n", "cp1251"),
    ("Привет, как дела? Это обычный текст.\n", "koi8_r"),
    ("Καλημέρα, τι κάνεις σήμερα; Αυτό είναι κείμενο.\n", "cp1253"),
    ("Şu çocuk İstanbul'da ağaç gördü, güneş ışığı\n", "cp1254"),
    ("مرحبا بالعالم هذا نص عادي باللغة العربية\n", "cp1256"),
    ("これは日本語のテキストです。明日は会議があります。\n", "cp932"),
    ("これは日本語のテキストです。明日は会議があります。\n", "euc_jp"),
    ("色: 白\n", "cp932"),
    ("本\n", "cp932"),
    ("这是一个中文文本\uff0c明天有会议。\n", "gb18030"),
    ("這是一個中文文本\uff0c明天有會議。\n", "big5"),
    ("안녕하세요. 이것은 한국어 텍스트입니다. 내일 회의가 있습니다.\n", "cp949"),
    ("plain\n", "utf-8"),
    ("Müller, 日本語, 🎉\n", "utf-8"),
    ("Name;Müller\r\n", "utf-16-le"),
    ("Name;Müller\r\n", "utf-16-be"),
    ("", "utf-8"),
]


@pytest.mark.parametrize(("text", "codec"), SAMPLES)
def test_a_text_is_read_in_the_encoding_it_was_written_in(text: str, codec: str) -> None:
    found = charset.of_file(text.encode(codec))

    assert found is not None
    assert (found.codec, found.decode(text.encode(codec))) == (codec, text)


MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}


@given(st.sampled_from(sorted(MARKS)), st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60))
def test_a_byte_order_mark_tells_the_encoding_and_is_no_text(codec: str, text: str) -> None:
    data = MARKS[codec] + text.encode(codec)

    found = charset.of_file(data)

    assert found is not None
    assert found == Charset(codec, MARKS[codec])
    assert found.decode(data) == text
    assert found.close(found.open(data)) == data


@given(st.binary(min_size=1, max_size=60), st.sampled_from([codec for _, codec in SAMPLES]))
def test_what_is_opened_is_closed_to_the_same_bytes_or_refused(data: bytes, codec: str) -> None:
    found = Charset(codec)
    try:
        text = found.open(data)
    except UnicodeError:
        return

    assert found.close(text) == data


@settings(max_examples=50)
@given(st.text(max_size=100))
def test_utf8_is_always_utf8(text: str) -> None:
    data = text.replace("\0", "").encode("utf-8", "ignore")
    if not data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        assert charset.of_file(data) == UTF8


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x81\x82" * 20,
        bytes(range(1, 256)),
        b"text\0text",
        b"\xff\xfb\x90\x64" * 30,
        b"\xff\xfe\0\0\1\0\2\0\3\0",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        "é".encode() * 20 + b"\xff" * 12,
    ],
)
def test_what_is_no_text_has_no_encoding(data: bytes) -> None:
    assert charset.of_file(data) is None


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE])
def test_random_bytes_have_no_encoding_even_after_a_byte_order_mark(mark: bytes) -> None:
    generator = random.Random(7)

    assert [n for n in range(50) if charset.of_file(mark + generator.randbytes(4_096))] == []


def test_utf8_with_some_damage_is_still_utf8() -> None:
    data = "Grüße aus Köln, schöne Wörter für Bücher".encode() + b"\xff"

    found = charset.of_file(data)

    assert found is not None
    assert found == UTF8
    assert found.close(found.open(data)) == data


def test_the_first_accent_may_stand_far_behind_the_beginning() -> None:
    lines = "a plain line of text\n" * 4_000

    assert charset.of_file((lines + "Müller zahlt für Größe\n").encode("cp1252")) == Charset("cp1252")
    assert charset.of_file((lines + "Müller zahlt für Größe\n").encode()) == UTF8


def test_a_long_text_of_one_encoding_is_judged_by_its_lines_that_tell() -> None:
    data = ("nothing\n" * 50 + "Straße in Köln, schön\n" * 1_600).encode("cp1252")

    assert charset.of_file(data) == Charset("cp1252")


@pytest.mark.parametrize(
    ("codec", "label"),
    [("utf-8", "UTF-8"), ("utf-16-le", "UTF-16LE"), ("cp1252", "windows-1252"), ("cp932", "Shift_JIS")],
)
def test_an_encoding_is_called_as_the_web_calls_it(codec: str, label: str) -> None:
    assert Charset(codec).label == label
    assert Charset(codec, b"\xff").label == f"{label} with BOM"


@pytest.mark.parametrize(
    ("declared", "data", "text"),
    [
        ("iso-8859-1", b"5 \x80", "5 €"),
        ("us-ascii", "Grüße".encode("cp1252"), "Grüße"),
        ("us-ascii", "Grüße".encode(), "Grüße"),
        ("utf-8", "Grüße".encode("cp1252"), "Grüße"),
        ("gb2312", "会议€".encode("gb18030"), "会议€"),
        ("utf-16", b"plain", "plain"),
        ("base64", b"plain", "plain"),
        ("no-such", "é".encode(), "é"),
        (None, "Grüße".encode("cp1252"), "Grüße"),
        (None, b"\xff\xfeG\0\xfc\0", "Gü"),
        ("iso-8859-2", "Łódź".encode("iso-8859-2"), "Łódź"),
    ],
)
def test_a_declared_encoding_is_believed_where_it_is_so(declared: str | None, data: bytes, text: str) -> None:
    assert charset.decode(data, declared=declared) == text


def test_binary_data_of_a_declared_text_is_shown_as_well_as_it_can_be() -> None:
    assert charset.decode(b"a\0\xff", declared=None) == "a\0\ufffd"


def test_a_page_that_names_no_encoding_is_read_in_its_own() -> None:
    assert read("html", "<p>Müller in Köln".encode("cp1252"))[0] == "Müller in Köln\n"
    assert read("html", b'<meta charset="utf-8"><p>M\xfcller in K\xf6ln')[0] == "Müller in Köln\n"


def test_an_email_is_read_whatever_its_program_put_where() -> None:
    mail = "From: Jürgen Müller <j@example.org>\r\nSubject: Grüße\r\n\r\nSchöne Grüße\r\n"
    ascii_said = mail.replace("\r\n\r\n", "\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n")

    for text in (mail.encode(), mail.encode("cp1252"), ascii_said.encode("cp1252")):
        assert read("mail", text)[0] == (
            "From: Jürgen Müller <j@example.org>\nSubject: Grüße\n\nSchöne Grüße\n\n"
        )


def test_rtf_with_bytes_that_are_not_ascii_is_read_in_its_code_page() -> None:
    assert read("rtf", rb"{\rtf1\ansi\ansicpg1251 " + "Привет".encode("cp1251") + b"}")[0] == "Привет\n"
    assert read("rtf", rb"{\rtf1\ansi " + "Grüße".encode("cp1252") + b"}")[0] == "Grüße\n"
    assert read("rtf", rb"{\rtf1\ansi\ansicpg99999 " + "Grüße".encode("cp1252") + b"}")[0] == "Grüße\n"
