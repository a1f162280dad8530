"""A text has a limit of lines, folds and parts, and what is made of it takes no more memory than is counted."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from nextcloud_mcp_server.apps.contacts.fields import Contact
from nextcloud_mcp_server.formats import ical, vcard
from nextcloud_mcp_server.formats.content_line import Pieces
from nextcloud_mcp_server.formats.ical import Component, Line, Unreadable
from nextcloud_mcp_server.formats.recurrence import Series
from nextcloud_mcp_server.formats.vcard import TooLong, VCard

CARD = "BEGIN:VCARD\nVERSION:3.0\nUID:u\nFN:x\n{}END:VCARD\n"
EVENT = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:u\nDTSTART:20261201T100000Z\n{}END:VEVENT\nEND:VCALENDAR\n"
LOW, HIGH = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
COUNT = 1_500
NUMBERS = range(COUNT)
CARDS = {
    "none": "",
    "short lines": "A:\n" * COUNT,
    "empty lines": "\n" * COUNT,
    "numbers": "TEL:1\n" * COUNT,
    "types": "TEL;TYPE=work,home;PREF=1:+49 1\n" * COUNT,
    "groups": "".join(f"g{number}.EMAIL:a\n" for number in NUMBERS),
    "labels": "".join(f"g{number}.X-ABLABEL:a\ng{number}.TEL:1\n" for number in NUMBERS),
    "names": "".join(f"g{number}.N{number}:a\n" for number in NUMBERS),
    "addresses": "ADR:a;b;c;d;e;f;g\n" * COUNT,
    "a long text": f"NOTE:{'é' * 100_000}\n",
    "wide characters": "NOTE:" + "\U0001f600" * 100_000 + "\n",
    "a folded text": "NOTE:" + "a\n " * 50_000 + "\n",
    "a list": f"CATEGORIES:{'abcdefgh,' * 20_000}\n",
    "bytes": f"NOTE;ENCODING=QUOTED-PRINTABLE:{'=F0=9F=98=80' * 10_000}\n",
}
EVENTS = {
    "none": "",
    "short lines": "AB:\n" * COUNT,
    "names": "".join(f"N{number}:a\n" for number in NUMBERS),
    "guests": "ATTENDEE;CN=a;ROLE=REQ-PARTICIPANT:mailto:a@b\n" * COUNT,
    "alarms": "BEGIN:VALARM\nEND:VALARM\n" * COUNT,
    "changed": "END:VEVENT\n"
    + "BEGIN:VEVENT\nRECURRENCE-ID:20261201T100000Z\nDTSTART:20261201T100000Z\nEND:VEVENT\n" * COUNT
    + "BEGIN:VEVENT\nDTSTART:20261201T100000Z\n",
    "removed": "RRULE:FREQ=DAILY\n" + "EXDATE:20261201T100000Z\n" * COUNT,
    "further": "RRULE:FREQ=DAILY\nRDATE:" + "20261201T100000Z," * COUNT + "20261201T100000Z\n",
    "a long text": f"DESCRIPTION:{'é' * 100_000}\n",
    "wide characters": "DESCRIPTION:" + "\U0001f600" * 100_000 + "\n",
    "a folded text": "DESCRIPTION:" + "a\n " * 50_000 + "\n",
}


def measured(make: Callable[[], object]) -> int:
    """Return the bytes that something takes."""
    # What a first call keeps for later ones does not count.
    make()
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept
    return taken


def lines_of(component: Component) -> Iterator[Line]:
    for one in component.items:
        if isinstance(one, Line):
            yield one
        else:
            yield from lines_of(one)


@pytest.mark.parametrize("body", CARDS.values(), ids=CARDS)
def test_a_card_with_its_fields_takes_no_more_memory_than_is_counted(body: str) -> None:
    text = CARD.format(body)

    def parsed() -> object:
        card = VCard.read(text)
        return card, Contact.of(card)

    assert measured(parsed) <= vcard.memory(Pieces.of(text))


@pytest.mark.parametrize("body", EVENTS.values(), ids=EVENTS)
def test_an_object_with_its_text_takes_no_more_memory_than_is_counted(body: str) -> None:
    text = EVENT.format(body)

    def parsed() -> object:
        whole = ical.read(text)
        values = [line.value for line in lines_of(whole)]
        assert values
        del values
        series = Series(whole, "VEVENT")
        return series, series.between(LOW, HIGH, UTC)[:1]

    pieces = Pieces.of(text)

    assert measured(parsed) + pieces.size <= ical.memory(pieces)


TOO_MANY = {
    "lines": "A:1\n" * 20_001,
    "folds": "NOTE:" + "a\n " * 200_001 + "\n",
    "folds with tabs": "NOTE:" + "a\n\t" * 200_001 + "\n",
    "commas": f"CATEGORIES:{'a,' * 50_001}\n",
    "semicolons": f"ADR:{'a;' * 50_001}\n",
    "quotation marks": "TEL;TYPE=" + '""' * 50_001 + ":1\n",
}


@pytest.mark.parametrize("body", TOO_MANY.values(), ids=TOO_MANY)
def test_what_would_be_too_many_objects_is_not_parsed(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    def parsed(*_: object) -> None:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(vcard.Line, "read", parsed)
    monkeypatch.setattr(ical, "Line", parsed)

    with pytest.raises(TooLong, match="it has more than"):
        VCard.read(CARD.format(body))
    with pytest.raises(Unreadable, match="it has more than"):
        ical.read(EVENT.format(body))


def test_a_picture_of_megabytes_and_thousands_of_members_are_parsed() -> None:
    picture = "PHOTO;ENCODING=b:" + f"{'A' * 74}\r\n " * 65_000 + "\r\n"
    members = "X-ADDRESSBOOKSERVER-MEMBER:urn:uuid:b4ea0b5e-3f0f\r\n" * 9_000

    card = VCard.read(CARD.format(picture + members))

    assert len(card) == 6 + 9_000
    assert card.whole


def test_an_attachment_of_megabytes_and_thousands_of_guests_are_parsed() -> None:
    attachment = "ATTACH;ENCODING=BASE64;VALUE=BINARY:" + f"{'A' * 74}\r\n " * 130_000 + "\r\n"
    guests = "ATTENDEE;CN=a;PARTSTAT=ACCEPTED;RSVP=TRUE:mailto:a@example.org\r\n" * 10_000

    assert len(list(lines_of(ical.read(EVENT.format(attachment + guests))))) == 7 + 10_000


def test_a_short_line_takes_as_much_work_as_many_characters() -> None:
    assert Pieces.of("A:\n" * 2_000).work > Pieces.of("a" * 90_000).work
