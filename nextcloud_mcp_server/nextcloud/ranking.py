"""Ranks texts by the words of a query: one ranking for notes, file names and research.

Whole words count more than parts of words, rare words more than frequent ones, and stop words are ignored. Scripts
without spaces are compared by pairs of characters. Accents and case are ignored.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Final, NamedTuple

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import normal_form
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.stop_words import STOP_WORDS

#: Scripts without spaces between words: Thai to Khmer, kana, Han, Hangul (whose endings are attached).
_PAIRED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
#: Vowel signs of Indian and Semitic scripts, which `\w` does not match.
_VOWELS: Final = "\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_LETTER: Final = rf"(?:(?![{_PAIRED}])[^\W_]|[{_VOWELS}])"
#: A word such as `R&D`, `C++` or `F#`, or a run of a script without spaces.
_TOKEN: Final = rf"{_LETTER}+(?:[&_]{_LETTER}+)*(?:\+\+|\#)?|[{_PAIRED}]+"
_REST: Final = rf"{_LETTER}*"
_IS_PAIRED: Final = f"[{_PAIRED}]"
#: NFKD writes it as 18 characters, so notes of it took twelve times their size in memory; people abbreviate it so.
_LONGEST_LIGATURE: Final = ("\ufdfa", "\u0635\u0644\u0639\u0645")
_ACCENTS: Final = "[\u0300-\u036f]"
#: Compiled at the first search: these classes take 15 ms, which a server that only lists its tools need not spend.
_compiled: Final = cache(re.compile)
#: One-letter words that begin sentences.
_ARTICLES: Final = frozenset("AEIOUYÀ")

_LONGEST_QUESTION: Final = 10_000
#: More terms do not improve a ranking.
MOST_TERMS: Final = 24
#: The maximum number of occurrences that count per text, and of those that are examined.
_MOST_PLACES: Final = 40
_MOST_EXAMINED: Final = 2_000
_SHORTEST_PREFIX: Final = 3
_SHORTEST_PART: Final = 4
#: The length of an inflectional ending: the difference of plan and plans, Frist and Fristen.
_ENDING: Final = 2

_WHOLE, _INFLECTED, _PREFIX, _PART = 1.0, 0.95, 0.6, 0.4
#: Where no text has every word, those are returned that reach this share of the best score.
_ENOUGH: Final = 0.5
_IN_TITLE: Final = 1.5
_IN_BODY: Final = 0.3


def fold(text: str) -> str:
    """Normalise a text for comparison: no case, accents or compatibility forms (Unicode NFKD, then NFC)."""
    if text.isascii():
        return text.lower()
    return "".join(map(_fold, normal_form.pieces(text)))


def _fold(piece: str) -> str:
    parts = normal_form.normalised("NFKD", piece.casefold().replace(*_LONGEST_LIGATURE))
    return normal_form.normalised("NFC", _compiled(_ACCENTS).sub("", parts)).casefold()


@dataclass(frozen=True, slots=True)
class Found:
    """How well a text matches a term, how often, and where first; 0 for no match."""

    level: float
    count: int
    at: int


_NOWHERE: Final = Found(0.0, 0, 0)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the query, or a pair of characters: as `written`, and `folded` for comparison."""

    written: str
    folded: str
    is_pair: bool

    def find(self, text: str) -> Found:
        """Find the term in a folded text: its best kind of match, and where."""
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
        stem, examined = self._stem(), 0
        at = text.find(stem)
        while at >= 0 and examined < _MOST_EXAMINED:
            examined += 1
            # No further than `_level` compares: a text may be one word of megabytes.
            end = _compiled(_REST).match(text, at + len(stem), at + len(self.folded) + _ENDING + 1)
            stop = at + len(stem) if end is None else end.end()
            begins = not at or _compiled(_LETTER).match(text, at - 1) is None
            if level := self._level(text[at:stop], begins=begins):
                yield at, level
            at = text.find(stem, at + len(stem))

    def _stem(self) -> str:
        """Return the common beginning of all inflections of the word."""
        return self.folded[: max(_SHORTEST_PART, len(self.folded) - _ENDING)]

    def _level(self, rest: str, *, begins: bool) -> float:
        """Rate a match by the rest of the word at that place."""
        length = len(self.folded)
        whole = rest.startswith(self.folded)
        if not begins:
            return _PART if whole and length >= _SHORTEST_PART else 0.0
        if rest == self.folded:
            return _WHOLE
        if min(length, len(rest)) >= _SHORTEST_PART and abs(length - len(rest)) <= _ENDING:
            # One equals the other plus an ending, or both have an ending.
            return _INFLECTED if whole or self.folded.startswith(rest) else 0.0
        return _PREFIX if whole and length >= _SHORTEST_PREFIX else 0.0


def terms_of(query: str) -> tuple[Term, ...]:
    """Split a query into terms without stop words; all words where only stop words remain.

    Raises:
      InvalidInput: It is too long: searching megabytes of it would delay all other users.
    """
    if len(query) > _LONGEST_QUESTION:
        raise InvalidInput(f"A question cannot be longer than {_LONGEST_QUESTION:,} characters: shorten it.")
    # Some keyboards send an accent as a separate character.
    text = normal_form.normalised("NFC", query)
    shouted = text == text.upper()
    every: dict[str, Term] = {}
    telling: dict[str, Term] = {}
    for found in _compiled(_TOKEN).finditer(text):
        for written, is_pair in _parts(found[0]):
            term = Term(written, fold(written), is_pair)
            every.setdefault(term.folded, term)
            if _is_telling(term) or (not shouted and _is_acronym(written)):
                telling.setdefault(term.folded, term)
    return tuple((telling or every).values())[:MOST_TERMS]


def _parts(token: str) -> list[tuple[str, bool]]:
    if _compiled(_IS_PAIRED).match(token) is None:
        return [(token, False)]
    pairs = [token[at : at + 2] for at in range(len(token) - 1)]
    return [(pair, True) for pair in pairs or [token]]


def _is_telling(term: Term) -> bool:
    """Tell whether a term is neither a stop word nor a single small letter, such as that of a ticked box."""
    return term.folded not in STOP_WORDS and not (len(term.written) == 1 and "a" <= term.written <= "z")


def _is_acronym(word: str) -> bool:
    """Tell acronyms (`IT`, `WHO`) and single capitals (vitamin C) from the stop words that they resemble."""
    return word.isupper() and word not in _ARTICLES


class Document(NamedTuple):
    """A text to rank, folded: its title and its body."""

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Ranked:
    """A match: the number of the document, its score, and the place in its text."""

    number: int
    score: float
    at: int | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The matching documents, best first; and the words that none of them contains."""

    hits: list[Ranked]
    missing: list[str]


async def rank_aside(
    documents: Sequence[Document],
    terms: Sequence[Term],
    *,
    uid: str,
    phrase: str = "",
    enough: float | None = None,
) -> Ranking:
    """Rank as `rank` does, `aside`."""
    return await aside(partial(rank, documents, terms, phrase=phrase, enough=enough), uid=uid)


class _Match(NamedTuple):
    number: int
    titles: list[Found]
    bodies: list[Found]


def rank(
    documents: Sequence[Document], terms: Sequence[Term], *, phrase: str = "", enough: float | None = None
) -> Ranking:
    """Rank documents: those with all words, or if there are none, those with the most significant words.

    Equal scores keep their order. `phrase` is the original query. With `enough`, all documents are returned that
    reach that share of the best score.
    """
    matches = [
        _Match(number, [term.find(one.title) for term in terms], [term.find(one.body) for term in terms])
        for number, one in enumerate(documents)
    ]
    columns = range(len(terms))
    held = [sum(bool(_level(match, column)) for match in matches) for column in columns]
    # A word without matches has no weight (Robertson and Spärck Jones, with the floor of Lucene's BM25).
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
        # Further occurrences of a word count less and less (as in BM25, with k1 = 1.2).
        weight * found.level * found.count * 2.2 / (found.count + 1.2)
        for weight, found in zip(weights, match.bodies, strict=True)
    )
    score = share**2 * (1 + _IN_TITLE * title + _IN_BODY * body / total)
    if phrase and phrase in one.title:
        score *= 1.5 if phrase == one.title else 1.3
    return score * 1.15 if phrase and phrase in one.body else score


def _place(match: _Match, weights: Sequence[float]) -> int | None:
    """Return the position of the most significant word in the text."""
    places = [(weight * found.level, found.at) for weight, found in zip(weights, match.bodies, strict=True)]
    best = max(places, key=lambda place: place[0])
    return best[1] if best[0] else None


def unfolded_place(text: str, at: int) -> int:
    """Return the position in a text that is position `at` of its folded form.

    Halves the text again and again, so that it folds twice its length: folding each character takes seconds.
    """
    start, end = 0, len(text)
    while end - start > 1:
        middle = (start + end) // 2
        length = len(fold(text[start:middle]))
        if length > at:
            end = middle
        else:
            start, at = middle, at - length
    return start if at < len(fold(text[start:end])) else end
