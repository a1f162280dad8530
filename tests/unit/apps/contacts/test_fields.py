"""Cards as old programs wrote them say the same as the ones of today, in every field (vCard 2.1, RFC 2426)."""

import base64
import quopri
from collections.abc import Callable
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.apps.contacts.fields import Changes, Contact, apply
from nextcloud_mcp_server.formats.content_line import escape
from nextcloud_mcp_server.formats.vcard import VCard

_TEXTS = ("FN", "NICKNAME", "TITLE", "NOTE", "EMAIL", "TEL", "URL")
_PARTS = {"N": 5, "ORG": 2, "ADR": 7}


def _card(version: str, lines: list[str]) -> Contact:
    body = "".join(f"{line}\r\n" for line in lines)
    return Contact.of(VCard.read(f"BEGIN:VCARD\r\nVERSION:{version}\r\n{body}END:VCARD\r\n"))


def _printable(text: str, charset: str = "utf-8") -> str:
    """Write a text as quoted-printable, as Python's own encoder does, with soft breaks of vCard 2.1."""
    data = quopri.encodestring(text.encode(charset), quotetabs=True).decode()
    for mark, code in ((";", "=3B"), (",", "=2C"), ("\r", "=0D"), ("=0D\n", "=0D=0A")):
        data = data.replace(mark, code)
    return data.replace("=\n", "=\r\n").replace("\\", "=5C")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_TEXT = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=60
).map(lambda text: text.replace("\\", "/").strip() or "x")


@settings(max_examples=25, deadline=None)
@given(st.lists(_TEXT, min_size=4, max_size=4), st.sampled_from(["2.1", "3.0"]))
def test_every_field_is_the_same_however_it_is_encoded(words: list[str], version: str) -> None:
    one, two, three, four = words

    def lines(head: str, write: Callable[[str], str]) -> list[str]:
        found = [f"{name}{head}:{write(one)}" for name in _TEXTS]
        found += [
            f"{name}{head}:"
            + ";".join(write(part) for part in [two, three, four, one, two, three, four][:count])
            for name, count in _PARTS.items()
        ]
        return [*found, f"CATEGORIES{head}:{write(two)},{write(three)}"]

    plain = _card("3.0", lines("", escape))

    printed = _card(version, lines(";CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE", _printable))
    bare = _card(version, lines(";QUOTED-PRINTABLE", _printable))

    for field in fields(Contact):
        assert getattr(printed, field.name) == getattr(plain, field.name), field.name
        assert getattr(bare, field.name) == getattr(plain, field.name), field.name


@pytest.mark.parametrize("head", [";ENCODING=BASE64", ";ENCODING=b", ";BASE64", ";ENCODING=B;CHARSET=UTF-8"])
@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ("FN{}:" + _base64("Zoë; Müller, Dr."), "name", "Zoë; Müller, Dr."),
        ("NOTE{}:" + _base64("zwei\nZeilen; Größe"), "note", "zwei\nZeilen; Größe"),
        ("TITLE{}:" + _base64("Köchin"), "title", "Köchin"),
        ("N{}:" + _base64("Müller;Zoë;;;"), "family_name", "Müller"),
        ("ORG{}:" + _base64("Straßenbau;Amt\\; 3"), "org", "Straßenbau; Amt\\; 3"),
        ("EMAIL{}:" + _base64("zoë@example.test"), "emails", ["zoë@example.test"]),
        ("TEL{};HOME:" + _base64("+49 30 1"), "phones", ["home: +49 30 1"]),
        (
            "ADR{};WORK:" + _base64(";;Straße 1;Köln;;50667;"),
            "addresses",
            ["work: Straße 1; Köln; ; 50667; "],
        ),
        ("CATEGORIES{}:" + _base64("Küche,Büro"), "categories", ["Küche", "Büro"]),
        ("BDAY{}:" + _base64("1990-05-17"), "birthday", "1990-05-17"),
    ],
)
def test_base64_is_read_in_every_field(head: str, line: str, field: str, expected: object) -> None:
    assert getattr(_card("3.0", [line.format(head)]), field) == expected


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ("FN;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:M=FCller", "name", "Müller"),
        ("FN;CHARSET=WINDOWS-1252;QUOTED-PRINTABLE:10 =80", "name", "10 €"),
        ("FN;CHARSET=SHIFT_JIS;ENCODING=QUOTED-PRINTABLE:=93=FA=96{", "name", "日本"),
        ("FN;ENCODING=QUOTED-PRINTABLE:M=FCller", "name", "Müller"),
        ("FN;CHARSET=X-UNKNOWN;ENCODING=QUOTED-PRINTABLE:M=C3=BCller", "name", "Müller"),
        ("FN;CHARSET=UTF-8:Müller", "name", "Müller"),
        ("FN;TYPE=QUOTED-PRINTABLE:M=C3=BCller", "name", "Müller"),
        ("FN;8BIT;CHARSET=UTF-8:Müller", "name", "Müller"),
        ("NOTE;ENCODING=QUOTED-PRINTABLE:Gr=C3=BC=C3=\r\n=9Fe aus=\r\n K=C3=B6ln=0D=0Aund mehr", "note",
         "Grüße aus Köln\r\nund mehr"),
        ("TEL;HOME;VOICE:030 1", "phones", ["home: 030 1"]),
        ("TEL;CELL;PREF:0171 1", "phones", ["cell: 0171 1"]),
        ("TEL;WORK;ENCODING=QUOTED-PRINTABLE:=2B49 30", "phones", ["work: +49 30"]),
        ("EMAIL;INTERNET;HOME:a@example.test", "emails", ["home: a@example.test"]),
        ("ADR;HOME;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:;;Stra=C3=9Fe 1=3B links;K=C3=B6ln;;50667;Deutschland",
         "addresses", ["home: Straße 1\\; links; Köln; ; 50667; Deutschland"]),
        ("ORG;ENCODING=QUOTED-PRINTABLE:B=C3=BCro\\;Nord;Abteilung", "org", "Büro\\;Nord; Abteilung"),
        ("NOTE;ENCODING=BASE64:not base64 at all!", "note", "not base64 at all!"),
    ],
)  # fmt: skip
def test_what_old_programs_wrote_is_read_as_they_meant_it(line: str, field: str, expected: object) -> None:
    assert getattr(_card("2.1", [line]), field) == expected


@pytest.mark.parametrize(
    ("line", "changes", "expected"),
    [
        ("NOTE;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:Gr=C3=BC=C3=9Fe", {"note": "Bis = bald"}, "NOTE:Bis = bald"),
        ("TITLE;ENCODING=b:S8O2Y2hpbg==", {"title": "Chefin"}, "TITLE:Chefin"),
        ("item1.EMAIL;QUOTED-PRINTABLE;TYPE=home:a=40b.c", {"emails": ["home: z@b.c"]}, "item1.EMAIL;TYPE=home:z@b.c"),
        ("TEL;HOME;ENCODING=QUOTED-PRINTABLE:=2B49 30", {"phones": ["work: +49 30"]},
         "TEL;TYPE=work;ENCODING=QUOTED-PRINTABLE:=2B49 30"),
        ("ADR;HOME;ENCODING=QUOTED-PRINTABLE:;;K=C3=B6nig 1;Berlin;;;", {"addresses": ["Haus am See: König 1; Berlin"]},
         "item1.ADR:;;König 1;Berlin;;;"),
    ],
)  # fmt: skip
def test_a_changed_value_is_not_said_to_be_encoded(
    line: str, changes: dict[str, object], expected: str
) -> None:
    card = VCard.read(f"BEGIN:VCARD\r\nVERSION:3.0\r\nFN:A\r\nN:;A;;;\r\n{line}\r\nEND:VCARD\r\n")

    apply(card, Changes(**changes))  # pyright: ignore[reportArgumentType]  # each row names its fields

    assert expected in card.text.splitlines()
