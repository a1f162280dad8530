"""Texts of other users and of models cost time in proportion to their length, whatever they hold."""

import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import product
from time import thread_time
from typing import Literal

import h11
import httpx2
import pytest

from nextcloud_mcp_server.apps.contacts.fields import Contact
from nextcloud_mcp_server.apps.notes import edit, results
from nextcloud_mcp_server.apps.tags_and_comments.tools import TagRow
from nextcloud_mcp_server.documents import sheet
from nextcloud_mcp_server.errors import InvalidInput, TooLarge
from nextcloud_mcp_server.formats import content_line, event_edit, ical, vcard
from nextcloud_mcp_server.formats.ical import Component
from nextcloud_mcp_server.formats.recurrence import Series
from nextcloud_mcp_server.formats.vcard import VCard
from nextcloud_mcp_server.nextcloud import error_mapping, ranking, sanitize, spelling
from nextcloud_mcp_server.tools import answer, note_pictures, pagination
from nextcloud_mcp_server.web import connections

#: A pattern that looks back at each place takes 256 times as long for a text of 16 times the length.
SHORT, TIMES, MOST_TIMES = 1_000, 16, 80
#: The pieces of links in Markdown, of titles, and of names; each text repeats some of them.
PIECES = (
    "[",
    "](",
    "[](",
    "[a](a",
    "(a",
    "(a)",
    ")",
    "<",
    "![",
    " ",
    "\t",
    "\n",
    '"',
    " '",
    "\\",
    "\\]",
    "a",
    "é",
    "./",
    "/",
    " (",
)


def cost(work: Callable[[str], object], text: str) -> float:
    begun = thread_time()
    work(text)
    return thread_time() - begun


def is_linear(work: Callable[[str], object], unit: str, end: str = "", *, short: int = SHORT) -> bool:
    """Compare the processor time of this thread; an attempt may be disturbed."""
    count = max(1, short // len(unit))
    for _ in range(3):
        few, many = (cost(work, f"x{unit * times}{end}") for times in (count, count * TIMES))
        # Below the resolution of the clock nothing is compared.
        if many < MOST_TIMES * max(few, 0.0001):
            return True
    return False


def names(text: str) -> object:
    try:
        return note_pictures.names(text)
    except InvalidInput:
        return None


def storage(text: str) -> object:
    asked = httpx2.Request("GET", "https://cloud.example.org/remote.php/dav/files/alice/a.txt")
    return error_mapping.storage_of(httpx2.Response(503, text=f"<s:message>{text}", request=asked))


WORKS: dict[str, Callable[[str], object]] = {
    "the links of a note": lambda text: list(note_pictures.linked(text)),
    "the path of a picture": names,
    "a whole link": lambda text: names(f"![{text})"),
    "the name of a file": sanitize.named,
    "a name in a sentence": sanitize.quoted,
    "an error": answer.refusal,
    "the place of a snippet": lambda text: ranking.unfolded_place(text, len(ranking.fold(text)) - 1),
}


def parsed(text: str) -> object:
    parser = h11.Connection(h11.SERVER, 10_000_000)
    parser.receive_data(text.encode())
    try:
        while parser.next_event() not in (h11.NEED_DATA, h11.PAUSED):
            pass
    except h11.RemoteProtocolError:
        return None
    return parser


@pytest.mark.parametrize("unit", [" ", "\t", " a", "a ", "a", ";", "; "])
@pytest.mark.parametrize(
    "start",
    ["a:", "a:b", "Transfer-Encoding: chunked\r\n\r\n1;", "Transfer-Encoding: chunked\r\n\r\n0\r\na:"],
    ids=["header", "value", "chunk", "trailer"],
)
def test_no_line_of_a_request_takes_more_than_its_length(start: str, unit: str) -> None:
    assert connections.LINEAR_PATTERNS
    assert is_linear(
        lambda text: parsed(f"POST / HTTP/1.1\r\nHost: x\r\n{start}{text}"), unit, "\0\nX\r\n\r\n"
    )


@pytest.mark.parametrize("work", WORKS)
def test_no_text_takes_more_than_its_length(work: str) -> None:
    units = sorted({first + second for first, second in product(PIECES, PIECES)})
    slow = (unit for unit in units for end in ("x", ")") if not is_linear(WORKS[work], unit, end))

    assert next(slow, None) is None


def test_a_message_of_a_proxy_takes_no_more_than_its_length() -> None:
    assert is_linear(storage, "mount", short=20_000)


@pytest.mark.parametrize(
    "unit", ["\u0301\u0323", "\u1dc0\u1dc2", "\u0301\uff9e", "\u0344\u0323", "é\u0323", "\u0f73\u0301"]
)
@pytest.mark.parametrize("work", [ranking.fold, spelling.composed, spelling.folded])
def test_a_letter_with_thousands_of_accents_takes_no_more_than_its_length(
    work: Callable[[str], object], unit: str
) -> None:
    """Python sorts them by insertion: a note of one such letter stopped every thread for minutes."""
    assert is_linear(work, unit, short=2_000)


@pytest.mark.parametrize("unit", ["\ufdfa", "\u0390", "é", "語"])
def test_a_text_of_megabytes_leaves_other_threads_their_turn_and_the_memory_its_measure(
    monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    """While Python normalises a text, no other thread runs, and one letter can become 18."""
    longest = [0]
    normalize = unicodedata.normalize

    def measured(form: Literal["NFC", "NFKD"], piece: str) -> str:
        longest[0] = max(longest[0], len(piece))
        return normalize(form, piece)

    monkeypatch.setattr(unicodedata, "normalize", measured)

    assert len(ranking.fold(unit * 1_000_000)) <= 4_000_000
    assert longest[0] <= 300_000


@pytest.mark.parametrize("unit", ["[", "[a", '"', '"[', "[h", "\\\\"])
def test_a_number_format_takes_no_more_than_its_length(unit: str) -> None:
    """Each of its open brackets was looked for up to the end."""
    quoted: re.Pattern[str] = vars(sheet)["_QUOTED"]

    assert is_linear(lambda text: quoted.sub("", text), unit, short=2_000)
    assert quoted.sub("", 'yyyy"d"[Red]0[d') == "yyyy0"


def test_a_line_of_megabytes_is_folded_in_one_pass() -> None:
    """Each fold copied the rest of the line."""
    assert is_linear(lambda text: content_line.fold(text, "\r\n"), "é", short=100_000)


def test_the_place_of_a_snippet_is_found_by_folding_twice_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    text, folds = "é" * 100_000 + "z", [0, 0]
    fold = ranking.fold

    def counted(piece: str) -> str:
        folds[0] += 1
        folds[1] += len(piece)
        return fold(piece)

    monkeypatch.setattr(ranking, "fold", counted)

    assert ranking.unfolded_place(text, 100_000) == 100_000
    assert folds[0] < 40
    assert folds[1] <= 2 * len(text) + 40


@pytest.fixture(autouse=True)
def no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse texts of any number of lines, so that what takes long shows."""
    for module in (ical, vcard):
        monkeypatch.setattr(module, "_MOST_LINES", 10_000_000)


EVENT = "BEGIN:VCALENDAR\r\n{}BEGIN:VEVENT\r\nUID:u\r\nDTSTART:20261201T100000Z\r\n{}END:VEVENT\r\n{}END:VCALENDAR\r\n"
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def events_of(count: int, line: str, others: str = "") -> tuple[Component, Component]:
    """Return an object, and its event, with as many lines of other properties before those that are changed."""
    before = "X-A:1\r\n" * count
    whole = ical.read(EVENT.format(before, before + line * count, others * count))
    return whole, next(whole.components("VEVENT"))


def answered(text: str) -> object:
    _, event = events_of(len(text), "ATTENDEE:mailto:a@example.org\r\n")
    return event_edit.answer([event], ["mailto:a@example.org"], "ACCEPTED", now=NOW)


def uninvited(text: str) -> object:
    whole, _ = events_of(len(text), "ATTENDEE:mailto:a@example.org\r\n")
    changes = event_edit.Changes(attendees=["b@example.org"])
    return event_edit.change_all(
        whole, Series(whole, "VEVENT"), changes, now=NOW, organizer="mailto:o@example.org"
    )


def ended(text: str) -> object:
    one = "BEGIN:VEVENT\r\nUID:u\r\nRECURRENCE-ID:20261202T100000Z\r\nDTSTART:20261201T100000Z\r\nEND:VEVENT\r\n"
    whole, _ = events_of(len(text), "RRULE:FREQ=DAILY\r\n", one)
    return event_edit.change_all(
        whole, Series(whole, "VEVENT"), event_edit.Changes(rule=""), now=NOW, organizer=""
    )


@pytest.mark.parametrize("work", [answered, uninvited, ended])
def test_an_event_of_thousands_of_lines_is_changed_in_one_pass(work: Callable[[str], object]) -> None:
    """Each change of a line looked for it from the first line on."""
    assert is_linear(work, "x", short=1_500)


@pytest.mark.parametrize("text", ["\u202e" * 1_000_000, "a/%41&" * 200_000])
def test_a_result_of_megabytes_is_cut_or_refused_before_it_is_made_safe(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """A recipe of hidden characters took more than half a second for each of its texts."""
    cleaned: list[int] = []
    escaped = sanitize.shown

    def counted(given: str) -> str:
        cleaned.append(len(given))
        return escaped(given)

    for module in (sanitize, answer):
        monkeypatch.setattr(module, "shown", counted)
    row = TagRow(name=text)

    assert len(pagination.fitting([text], 9_000)[0]) <= 1_000
    assert pagination.fit([row, row]) == [row]
    assert pagination.fair([[row], [row]]) == [1, 0]
    with pytest.raises(TooLarge, match="too much for one answer"):
        answer.result(row)
    assert max(cleaned, default=0) <= pagination.MAX_ROWS_BYTES


def test_an_error_is_cut_before_it_is_made_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a label may be megabytes long, and was searched for links on the event loop."""
    cleaned: list[int] = []
    neutralise_links = answer.neutralise_links

    def counted(text: str) -> str:
        cleaned.append(len(text))
        return neutralise_links(text)

    monkeypatch.setattr(answer, "neutralise_links", counted)
    sentence = "a/%41&" * 500_000

    line = answer.refusal(sentence)
    remark = answer.result(results.NoteList(notes=[]), remarks=[sentence]).structured_content

    assert len(line) == 4_000
    assert remark is not None
    assert len(remark["remarks"][0]) == 4_000
    assert max(cleaned) <= 8_000


def test_a_link_is_replaced_in_an_error_that_is_cut() -> None:
    link = "https://cloud.example.org/login/v2/flow/abc"

    assert link not in answer.refusal("x" * (4_000 - 100) + f" {link} " + "y" * 10_000)
    assert "flow/abc" not in answer.refusal(f"{link} {link}")


def calendar(text: str) -> object:
    with suppress(ical.Unreadable):
        whole = ical.read(f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:u\n{text}\nEND:VEVENT\nEND:VCALENDAR\n")
        return [(line.head, line.value) for line in next(whole.components("VEVENT")).every("A")]
    return None


def contact(text: str) -> object:
    return Contact.of(VCard.read(f"BEGIN:VCARD\nVERSION:3.0\nFN:a\nTEL;TYPE={text}\nEND:VCARD\n"))


def section(text: str) -> object:
    with suppress(InvalidInput):
        return edit.replace_section(f"# a\n{text}", "a", "new")
    return None


LOOPS: dict[str, Callable[[str], object]] = {
    "a calendar object": calendar,
    "a contact": contact,
    "a section of a note": section,
    "an escaped value": content_line.unescape,
    "a text with hidden characters": sanitize.shown,
}


@pytest.mark.parametrize(
    "unit",
    [
        "a", "\n", "\n ", "A:b\n", "A;B=c:d\n", "BEGIN:X\n", "BEGIN:X\nEND:X\n", "END:X\n", ";", '"', ';"', ",",
        "\\", "\\,", "=\n", ":1\nTEL:1\n", "\nitem1.TEL:1\nitem1.X-ABLabel:a", "\nCATEGORIES:a", "\nNOTE:a", "# a\n",
        "\n```\n", "`", "\r", "\u202e", "é",
    ],
)  # fmt: skip
@pytest.mark.parametrize("loop", LOOPS)
def test_no_line_is_looked_for_from_the_beginning_again(loop: str, unit: str) -> None:
    assert is_linear(LOOPS[loop], unit)
