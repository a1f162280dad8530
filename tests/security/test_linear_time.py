"""Texts of other users and of models cost time in proportion to their length, whatever they hold."""

from collections.abc import Callable
from itertools import product
from time import thread_time

import httpx2
import pytest

from nextcloud_mcp_server.apps.notes import results
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import content_line
from nextcloud_mcp_server.nextcloud import error_mapping, ranking, sanitize
from nextcloud_mcp_server.tools import answer, note_pictures

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


@pytest.mark.parametrize("work", WORKS)
def test_no_text_takes_more_than_its_length(work: str) -> None:
    units = sorted({first + second for first, second in product(PIECES, PIECES)})
    slow = (unit for unit in units for end in ("x", ")") if not is_linear(WORKS[work], unit, end))

    assert next(slow, None) is None


def test_a_message_of_a_proxy_takes_no_more_than_its_length() -> None:
    assert is_linear(storage, "mount", short=20_000)


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
