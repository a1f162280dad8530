"""Ranks texts by the words of a question: one ranking for notes, for names of files and for research.

Whole words count more than parts of words, rare words more than frequent ones, and words that say nothing are
passed over. Scripts without spaces are compared by pairs of signs. Accents and case make no difference.
"""

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from anyio import to_thread

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.stop_words import STOP_WORDS

#: Scripts that set no spaces between words: Thai to Khmer, kana, Han, Hangul (whose endings are attached).
_PAIRED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
#: Signs that vowels of Indian and Semitic scripts are written with; `\w` leaves them out.
_VOWELS: Final = "\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_LETTER: Final = rf"(?:(?![{_PAIRED}])[^\W_]|[{_VOWELS}])"
#: A word such as `R&D`, `C++` or `F#`, or a run of a script without spaces.
_TOKEN: Final = re.compile(rf"{_LETTER}+(?:[&_]{_LETTER}+)*(?:\+\+|\#)?|[{_PAIRED}]+")
_REST: Final = re.compile(rf"{_LETTER}*")
_IS_LETTER: Final = re.compile(_LETTER)
_IS_PAIRED: Final = re.compile(f"[{_PAIRED}]")
_ACCENTS: Final = re.compile("[\u0300-\u036f]")
#: Words of one capital letter with which sentences begin.
_ARTICLES: Final = frozenset("AEIOUYÀ")

_LONGEST_QUESTION: Final = 10_000
#: More words than these make no answer better.
MOST_TERMS: Final = 24
#: Occurrences looked at in one text.
_MOST_PLACES: Final = 40
_SHORTEST_PREFIX: Final = 3
_SHORTEST_PART: Final = 4
#: An ending: the difference of plan and plans, Frist and Fristen.
_ENDING: Final = 2

_WHOLE, _INFLECTED, _PREFIX, _PART = 1.0, 0.95, 0.6, 0.4
#: Where no text holds every word, those are named that hold this share of what the best one holds.
_ENOUGH: Final = 0.5
_IN_TITLE: Final = 1.5
_IN_BODY: Final = 0.3


def fold(text: str) -> str:
    """Make texts comparable: no case, no accents, no forms of the same sign (Unicode NFKD, then NFC)."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", parts)).casefold()


@dataclass(frozen=True, slots=True)
class Found:
    """How well a text holds a term, how often, and where first; 0 for not at all."""

    level: float
    count: int
    at: int


_NOWHERE: Final = Found(0.0, 0, 0)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the question, or a pair of signs: `written` as it was, `folded` to be compared."""

    written: str
    folded: str
    is_pair: bool

    def find(self, text: str) -> Found:
        """Look for it in a folded text: the best way it occurs in, and where."""
        if self.is_pair:
            at = text.find(self.folded)
            return _NOWHERE if at < 0 else Found(_WHOLE, text.count(self.folded), at)
        best, count = _NOWHERE, 0
        for at, level in self._places(text):
            count += 1
            if level > best.level:
                best = Found(level, 0, at)
            if count == _MOST_PLACES:
                break
        return replace(best, count=count)

    def _places(self, text: str) -> Iterator[tuple[int, float]]:
        stem = self._stem()
        at = text.find(stem)
        while at >= 0:
            end = _REST.match(text, at + len(stem))
            stop = at + len(stem) if end is None else end.end()
            begins = not at or _IS_LETTER.match(text, at - 1) is None
            if level := self._level(text[at:stop], begins=begins):
                yield at, level
            at = text.find(stem, at + len(stem))

    def _stem(self) -> str:
        """Give what every inflection of the word begins with."""
        return self.folded[: max(_SHORTEST_PART, len(self.folded) - _ENDING)]

    def _level(self, rest: str, *, begins: bool) -> float:
        """Judge a place by what is left of the word there."""
        length = len(self.folded)
        whole = rest.startswith(self.folded)
        if not begins:
            return _PART if whole and length >= _SHORTEST_PART else 0.0
        if rest == self.folded:
            return _WHOLE
        if min(length, len(rest)) >= _SHORTEST_PART and abs(length - len(rest)) <= _ENDING:
            # One is the other with an ending, or both have one.
            return _INFLECTED if whole or self.folded.startswith(rest) else 0.0
        return _PREFIX if whole and length >= _SHORTEST_PREFIX else 0.0


def terms_of(query: str) -> tuple[Term, ...]:
    """Take the words of a question that mean something; all of them where none does.

    Raises:
        InvalidInput: It is longer than any question: looking through megabytes would hold up all other users.
    """
    if len(query) > _LONGEST_QUESTION:
        raise InvalidInput(f"A question cannot be longer than {_LONGEST_QUESTION:,} characters: shorten it.")
    # As typed on some keyboards an accent is a sign of its own.
    text = unicodedata.normalize("NFC", query)
    shouted = text == text.upper()
    every: dict[str, Term] = {}
    telling: dict[str, Term] = {}
    for found in _TOKEN.finditer(text):
        for written, is_pair in _parts(found[0]):
            term = Term(written, fold(written), is_pair)
            every.setdefault(term.folded, term)
            if _is_telling(term) or (not shouted and _is_acronym(written)):
                telling.setdefault(term.folded, term)
    return tuple((telling or every).values())[:MOST_TERMS]


def _parts(token: str) -> list[tuple[str, bool]]:
    if _IS_PAIRED.match(token) is None:
        return [(token, False)]
    pairs = [token[at : at + 2] for at in range(len(token) - 1)]
    return [(pair, True) for pair in pairs or [token]]


def _is_telling(term: Term) -> bool:
    """Pass over what only holds sentences together, and single small letters such as that of a ticked box."""
    return term.folded not in STOP_WORDS and not (len(term.written) == 1 and "a" <= term.written <= "z")


def _is_acronym(word: str) -> bool:
    """Tell `IT` and `WHO` from the words they look like, and the C of a vitamin."""
    return word.isupper() and word not in _ARTICLES


class Document(NamedTuple):
    """What is ranked, folded: a title, and a text behind it."""

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document that was found: its number, how well it fits, and where in its text."""

    number: int
    score: float
    at: int | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The documents that fit, the best first; and the words that none of them holds."""

    hits: list[Ranked]
    missing: list[str]


async def rank_aside(
    documents: Sequence[Document], terms: Sequence[Term], *, phrase: str = "", enough: float | None = None
) -> Ranking:
    """Rank as `rank`, in a thread: thousands of texts take a while, and others are to be served meanwhile."""
    return await to_thread.run_sync(partial(rank, documents, terms, phrase=phrase, enough=enough))


class _Match(NamedTuple):
    number: int
    titles: list[Found]
    bodies: list[Found]


def rank(
    documents: Sequence[Document], terms: Sequence[Term], *, phrase: str = "", enough: float | None = None
) -> Ranking:
    """Rank documents; where some hold all words only those, else those that hold the most telling ones.

    Equal ones keep their order. `phrase` is the question as it was put. With `enough` all are named that hold
    that share of what the best one holds.
    """
    matches = [
        _Match(number, [term.find(one.title) for term in terms], [term.find(one.body) for term in terms])
        for number, one in enumerate(documents)
    ]
    columns = range(len(terms))
    held = [sum(bool(_level(match, column)) for match in matches) for column in columns]
    # A word that is nowhere tells nothing apart (Robertson and Spärck Jones, with the floor of Lucene's BM25).
    weights = [math.log(1 + (len(matches) - n + 0.5) / (n + 0.5)) if n else 0.0 for n in held]
    total = sum(weights)
    missing = [term.written for term, n in zip(terms, held, strict=True) if not n]
    if not total:
        return Ranking([], missing)
    found = [(match, _coverage(match, weights) / total) for match in matches]
    whole = [(match, share) for match, share in found if all(_level(match, n) for n in columns if held[n])]
    least = max(share for _, share in found) * (enough or _ENOUGH)
    kept = [(match, share) for match, share in found if share >= least]
    if enough is None:
        kept = whole or kept
    wanted = " ".join(fold(phrase).split())
    hits = [
        Ranked(
            match.number,
            _score(match, share, weights, documents[match.number], wanted),
            _place(match, weights),
        )
        for match, share in kept
    ]
    hits.sort(key=lambda hit: -hit.score)
    return Ranking(hits, missing)


def _level(match: _Match, column: int) -> float:
    return max(match.titles[column].level, match.bodies[column].level)


def _coverage(match: _Match, weights: Sequence[float]) -> float:
    return sum(weight * _level(match, column) for column, weight in enumerate(weights))


def _score(match: _Match, share: float, weights: Sequence[float], one: Document, phrase: str) -> float:
    total = sum(weights)
    title = sum(weight * found.level for weight, found in zip(weights, match.titles, strict=True)) / total
    body = sum(
        # The second and third time a word occurs count less and less (as in BM25, with k1 = 1.2).
        weight * found.level * found.count * 2.2 / (found.count + 1.2)
        for weight, found in zip(weights, match.bodies, strict=True)
    )
    score = share**2 * (1 + _IN_TITLE * title + _IN_BODY * body / total)
    if phrase and phrase in one.title:
        score *= 1.5 if phrase == one.title else 1.3
    return score * 1.15 if phrase and phrase in one.body else score


def _place(match: _Match, weights: Sequence[float]) -> int | None:
    """Find where in the text the most telling word stands."""
    places = [(weight * found.level, found.at) for weight, found in zip(weights, match.bodies, strict=True)]
    best = max(places, key=lambda place: place[0])
    return best[1] if best[0] else None


def unfolded_place(text: str, at: int) -> int:
    """Find in a text the place that is number `at` in its folded form."""
    begun = 0
    for line in text.splitlines(keepends=True):
        length = len(fold(line))
        if length > at:
            for character in line:
                at -= len(fold(character))
                if at < 0:
                    break
                begun += 1
            return begun
        at -= length
        begun += len(line)
    return begun
