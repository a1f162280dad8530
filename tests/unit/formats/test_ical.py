import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import ical
from nextcloud_mcp_server.formats.ical import Component, Line, Unreadable

EVENT = (
    'BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\nX-ODD;X-P="a:b;c":keep\r\n  me\r\n'
    "SUMMARY;LANGUAGE=en:Old\\, title\r\nCATEGORIES:a\\, b, c,\r\nBEGIN:VALARM\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)


def event(text: str = EVENT) -> tuple[Component, Component]:
    whole = ical.read(text)
    return whole, next(whole.components("VEVENT"))


def test_what_is_read_is_written_as_it_was() -> None:
    whole, one = event()

    assert whole.written == EVENT
    assert ical.read(EVENT.rstrip().replace("\r", "")).written == EVENT.replace("\r", "")
    assert (one.text("SUMMARY"), one.text("NOTHING")) == ("Old, title", "")
    assert [ical.texts(line) for line in one.every("CATEGORIES")] == [["a, b", "c"]]


_PIECES = st.sampled_from(["A", "b-", ";", ":", '"', "\n", "\r\n", " ", "\t", "\r\n ", "X=", "9", "é", ","])


@settings(max_examples=300)
@given(st.lists(_PIECES, max_size=14))
def test_a_line_is_taken_apart_as_its_grammar_says_however_it_is_folded(pieces: list[str]) -> None:
    """RFC 5545 §3.1: unfolded first, then a name, parameters whose quoted values may hold a colon, and the value."""
    raw = "".join(pieces)

    line = Line(raw)

    plain = re.sub(r"\r?\n[ \t]", "", raw).strip("\r\n")
    head = re.match(r'((?:"[^"]*"|[^":])*):', plain)
    name = re.match(r"\s*([A-Za-z0-9-]+)[;:]", raw)
    assert line.name == (name[1].upper() if name else "")
    assert (line.head, line.value) == (
        (head[1].strip(), plain[head.end() :]) if head else (plain.strip(), "")
    )


def test_a_change_leaves_every_other_line_alone() -> None:
    whole, one = event()

    one.set_text("SUMMARY", "New; title\nof two lines")
    one.set_text("LOCATION", "Köln " * 20)
    one.set_text("UID", None)

    assert whole.written == EVENT.replace("UID:1\r\n", "").replace(
        "Old\\, title", "New\\; title\\nof two lines"
    ).replace("BEGIN:VALARM", "LOCATION:" + "Köln " * 11 + "\r\n " + "Köln " * 9 + "\r\nBEGIN:VALARM")
    assert one.text("LOCATION") == "Köln " * 20


def test_parameters_are_read_and_changed_one_by_one() -> None:
    line = Line('ATTENDEE;CN="Doe; Ana: x";PARTSTAT=NEEDS-ACTION:mailto:ana@example.org\r\n')

    changed = line.with_parameter("PARTSTAT", "ACCEPTED")

    assert (line.parameter("CN"), line.parameter("PARTSTAT"), line.parameter("ROLE")) == (
        "Doe; Ana: x",
        "NEEDS-ACTION",
        "",
    )
    assert changed.raw == 'ATTENDEE;CN="Doe; Ana: x";PARTSTAT=ACCEPTED:mailto:ana@example.org\r\n'
    assert changed.with_parameter("CN", None).head == "ATTENDEE;PARTSTAT=ACCEPTED"
    assert (Line("NO COLON").name, Line("X;Y=1\r\n").value) == ("", "")


def test_a_property_that_stands_twice_is_set_once() -> None:
    _, one = event(EVENT.replace("UID:1\r\n", "UID:1\r\nUID:2\r\n"))

    one.set("UID", "3")

    assert [line.value for line in one.every("UID")] == ["3"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "BEGIN:VCALENDAR\n",
        "END:VCALENDAR\n",
        "BEGIN:VCALENDAR\nEND:VEVENT\n",
        "BEGIN:VCARD\nEND:VCARD\n",
        f"{EVENT}{EVENT}",
        "BEGIN:VCALENDAR\nBROKEN\nEND:VCALENDAR\n",
        "BEGIN:A\n" * 20,
        f"X:1\n{EVENT}",
    ],
)
def test_what_is_no_calendar_object_is_said_to_be_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        ical.read(text)


def test_empty_lines_between_do_no_harm() -> None:
    assert ical.read(EVENT.replace("UID", "\r\nUID")).text("VERSION") == "2.0"


def test_control_characters_reach_no_calendar() -> None:
    with pytest.raises(errors.InvalidInput, match="control characters"):
        ical.escape("bell\x07")
