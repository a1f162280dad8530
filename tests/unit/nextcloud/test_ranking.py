import unicodedata

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.nextcloud.ranking import (
    Document,
    Ranking,
    fold,
    rank,
    rank_aside,
    terms_of,
    unfolded_place,
)

#: What a user may have noted, by a short name: title and text.
NOTES = {
    "zurich": ("Trip", "Zürich in May, ich war mit der Bahn da, das Hotel habe ich"),
    "lease": ("Wohnung", "Die Kündigungsfrist beträgt drei Monate."),
    "phone": ("Handyvertrag", "Kündigungsfristen: ein Monat zum Ende"),
    "q3": ("Planning", "Q3: hire two people. Budget as in Q2."),
    "q32": ("Device", "Model Q32 of the printer"),
    "hr": ("Meeting", "HR wants the list by Friday"),
    "year": ("Jahresplan", "Urlaub, Messen, Jahrestag"),
    "meeting": ("会议记录", "十一月二十日的会议讨论预算"),
    "budget": ("预算", "明年的预算表"),
    "cafe": ("Cafe\u0301 list", "Le Procope, Ladurée, ﬁne"),
    "it": ("IT budget", "laptops and licences"),
    "all": ("Misc", "it is what it is, the budget for the party"),
    "contract": ("Contrato", "El contrato de alquiler termina en marzo"),
    "insurance": ("Assurance", "Le contrat d'assurance est dans le tiroir"),
    "cpp": ("Languages", "C++ and C# at work, R&D uses F#"),
    "letter": ("Alphabet", "C is a letter, R is one and D is one"),
}


def found(query: str) -> list[str]:
    names = list(NOTES)
    documents = [Document(fold(title), fold(text)) for title, text in NOTES.values()]
    return [names[hit.number] for hit in rank(documents, terms_of(query), phrase=query).hits]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("Wo habe ich das mit der Kündigungsfrist notiert?", ["lease", "phone"]),
        ("kundigungsfrist", ["lease", "phone"]),
        ("KU\u0308NDIGUNGSFRIST", ["lease", "phone"]),
        ("Q3", ["q3"]),
        ("What did I write about Q3?", ["q3"]),
        ("HR", ["hr"]),
        ("hr", ["hr"]),
        ("会议", ["meeting"]),
        ("会议在哪里", ["meeting"]),
        ("预算", ["budget", "meeting"]),
        ("cafe", ["cafe"]),
        ("fine", ["cafe"]),
        ("IT budget", ["it", "all"]),
        ("the IT budget", ["it", "all"]),
        ("¿Dónde está el contrato?", ["contract", "insurance"]),
        ("Où est mon contrat d'assurance ?", ["insurance"]),
        ("C++", ["cpp"]),
        ("R&D", ["cpp"]),
        ("Jahr", ["year"]),
        ("plan", ["q3", "year"]),
        ("nowhere", []),
    ],
)
def test_a_judged_question_finds_what_a_person_means(query: str, best: list[str]) -> None:
    assert found(query) == best


def test_a_whole_word_comes_before_a_part_of_a_word_even_in_a_title() -> None:
    documents = [
        Document("planning", "planning planning"),
        Document("x", "the plan"),
        Document("x", "workplan"),
    ]

    assert [hit.number for hit in rank(documents, terms_of("plan")).hits] == [1, 0, 2]


def test_a_rare_word_weighs_more_than_a_frequent_one() -> None:
    documents = [Document("", "budget")] * 5 + [Document("", "tulips")]

    assert [hit.number for hit in rank(documents, terms_of("budget of tulips")).hits] == [5]


def test_words_that_are_nowhere_are_named() -> None:
    ranking = rank([Document("", "tulips")], terms_of("tulips Xylophon"))

    assert ([hit.number for hit in ranking.hits], ranking.missing) == ([0], ["Xylophon"])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("who", ["who"]),
        ("WHO is it", ["WHO"]),
        ("vitamin C", ["vitamin", "C"]),
        ("- [x] milk", ["milk"]),
        ("a_b", ["a_b"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("字", ["字"]),
        ("!?", []),
    ],
)
def test_the_telling_words_of_a_question_are_taken(query: str, words: list[str]) -> None:
    assert [term.written for term in terms_of(query)] == words


@settings(max_examples=60)
@given(text=st.text(alphabet="aÄéßﬁ日 \n\u0301İ", max_size=60), data=st.data())
def test_a_place_of_a_folded_text_leads_to_the_same_sign_of_the_text(text: str, data: st.DataObject) -> None:
    text = unicodedata.normalize("NFC", text)
    at = data.draw(st.integers(0, len(text)))

    assert unfolded_place(f"{text[:at]}\nneedle", len(fold(f"{text[:at]}\n"))) == at + 1


@settings(max_examples=60)
@given(word=st.text(alphabet="abcé", min_size=2, max_size=6), other=st.text(alphabet="xyz ", max_size=20))
def test_a_whole_word_is_found_wherever_it_stands(word: str, other: str) -> None:
    document = Document(fold(other), fold(f"{other} {word.upper()}, {other}"))

    [hit] = rank([document], terms_of(word) or terms_of(f"{word} {word}")).hits

    assert hit.at is not None
    assert document.body[hit.at :].startswith(fold(word))


async def test_others_are_served_while_thousands_of_texts_are_ranked() -> None:
    """Rank in a thread: what runs on the event loop meanwhile gets its turns."""
    documents = [Document(f"note {number}", "a plan of tulips " * 40) for number in range(2000)]
    turns = 0
    found: list[Ranking] = []

    async def ranked() -> None:
        found.append(await rank_aside(documents, terms_of("tulips plan 17"), uid="alice"))
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(ranked)
        while True:
            await checkpoint()
            turns += 1

    assert len(found) == 1
    # Ranked on the event loop itself, there would be one.
    assert turns > 10
    assert found[0] == rank(documents, terms_of("tulips plan 17"))
