"""Known client names, the hosts they belong to, and the detection of names that imitate them.

Any client may call itself anything. `look_alikes` tells whether some part of a name looks like a known one, whatever
separates its letters. In ordinary letters it must also be there in words of its own: “Mobile Chat” and “Le château”
are not “Le Chat”, and “Open Air” is not “OpenAI”.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from nextcloud_mcp_server.auth import look_alikes
from nextcloud_mcp_server.formats import normal_form
from nextcloud_mcp_server.nextcloud.sanitize import meant, without_hidden


@dataclass(frozen=True, slots=True)
class _Known:
    """A known name, and its places: hosts with all their subdomains, and schemes of its programs.

    `longer` are ordinary words that contain it. With `is_phrase` it consists of ordinary words, parts of which are at
    the ends and beginnings of others.
    """

    name: str
    places: tuple[str, ...]
    longer: frozenset[str] = frozenset()
    is_phrase: bool = False


_ANTHROPIC = ("claude.ai", "claude.com", "anthropic.com", "claude:")
_OPENAI = ("chatgpt.com", "openai.com", "chatgpt:", "codex:")
_MICROSOFT = (
    "vscode.dev",
    "code.visualstudio.com",
    "microsoft.com",
    "github.com",
    "vscode:",
    "vscode-insiders:",
)
_GOOGLE = ("google.com", "gemini:")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KNOWN = (
    _Known("Claude", _ANTHROPIC, _words("claudel claudelle claudette claudettes")),
    _Known(
        "Anthropic", _ANTHROPIC, _words("anthropical lycanthropic misanthropic philanthropic philanthropical")
    ),
    _Known("ChatGPT", _OPENAI),
    _Known("OpenAI", _OPENAI, _words("openair openaire openairfestival openairkino openairs")),
    _Known("Codex", _OPENAI),
    _Known(
        "Cursor",
        ("cursor.com", "cursor.sh", "cursor:"),
        _words(
            "cursore cursores cursorily cursory precursor precursora precursores precursors recursor recursors"
        ),
    ),
    _Known("VS Code", _MICROSOFT),
    _Known("Visual Studio", _MICROSOFT, _words("audiovisualstudio")),
    _Known("Copilot", _MICROSOFT, _words("copilota copilotage copilote copiloter copilotes ecopilot")),
    _Known("Gemini", _GOOGLE, _words("geminiani geminiano geminid geminidi geminids geminin")),
    _Known("Mistral", ("mistral.ai",)),
    _Known("Le Chat", ("mistral.ai",), is_phrase=True),
    _Known("Perplexity", ("perplexity.ai",)),
    _Known(
        "Windsurf",
        ("windsurf.com", "codeium.com", "windsurf:"),
        _words(
            "windsurfbrett windsurfclub windsurfen windsurfer windsurferin windsurfers windsurfeur windsurfeurs"
            " windsurfing windsurfista windsurfistas windsurfschule windsurfverein"
        ),
    ),
    _Known("LibreChat", ("librechat.ai",)),
    _Known("Nextcloud", ("nextcloud.com",)),
)

_GAPS = re.compile(r"[\s_.-]+")

#: Letters of European languages that are no letter with a mark.
_LETTERS: Final = str.maketrans(
    {
        "ß": "ss",
        "æ": "ae",
        "Æ": "AE",
        "œ": "oe",
        "Œ": "OE",
        "ø": "o",
        "Ø": "O",
        "ł": "l",
        "Ł": "L",
        "đ": "d",
        "Đ": "D",
    }
)
#: Words, numbers, and what separates them. A digit before a letter stands for a letter, as some signs do.
_ORDINARY: Final = re.compile(
    r"(?:[A-Za-z\s_.,;:&/\"'\u2019\u201c\u201d\xab\xbb\xb7\u2013\u2014-]|[0-9](?![A-Za-z])|(?<!\S)\+(?!\S))*+"
)
#: What divides a name into parts that are not read together.
_BREAKS: Final = re.compile(r"(?<!\S)[&+](?!\S)|[,;:](?!\S)")
#: A part in brackets. A single bracket may be meant for a letter.
_IN_BRACKETS: Final = re.compile(r"(?<!\S)\(([^()]*)\)(?!\S)")
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
#: `OpenAirKino`; in other words with capitals every part counts.
_PASCAL: Final = re.compile(r"(?:[A-Z][a-z]+){2,}")
_PIECE: Final = re.compile(r"[A-Z]+[a-z]*|[a-z]+|[0-9]+")
#: Pieces that are read together have at most so many letters for each of the name.
_MOST_LETTERS: Final = 3


#: Hosts of a known client's owner where anyone may publish a page or a program.
_OF_EVERYONE = (
    *("script.google.com", "sites.google.com", "docs.google.com", "drive.google.com"),
    *("storage.cloud.google.com", "gist.github.com", "raw.github.com", "forms.microsoft.com"),
)


@lru_cache(maxsize=4_096)
def imitated(name: str, place: str | None) -> str | None:
    """Return the known client that a name equals or imitates, unless `place` is one of that client's.

    `place` is the host or scheme (with its colon) that is known of the client. It is None if only an id or a
    program on the user's computer is known: there an ordinary spelling proves nothing, and only look-alike
    letters count as an imitation.

    The answers are cached: a name of signs that stand for whole phrases takes a quarter of a second, and anyone can
    open the page that shows it again and again.
    """
    plain, seen = _plain(name), without_hidden(meant(name))
    for known in _KNOWN:
        if any(_belongs(place, one) for one in known.places) or not _looks_like(seen, known):
            continue
        if place is not None or _plain(known.name) not in plain:
            return known.name
    return None


def _looks_like(name: str, known: _Known) -> bool:
    if not look_alikes.contains(name, known.name):
        return False
    ordinary = _in_ascii(name)
    if ordinary is None:
        # Among letters that only look like others, a name is never there by accident.
        return True
    return any(_is_in(phrase, known) for phrase in _BREAKS.split(ordinary))


def _is_in(phrase: str, known: _Known) -> bool:
    words = _WORD.findall(phrase)
    single = [
        part for word in words for part in (_PIECE.findall(word) if _PASCAL.fullmatch(word) else [word])
    ]
    if not known.is_phrase and any(
        look_alikes.contains(word, known.name) and word.lower() not in known.longer for word in single
    ):
        return True
    pieces = [piece for word in words for piece in _PIECE.findall(word)]
    return any(
        look_alikes.reads_as(run, known.name) for run in _runs(pieces, _MOST_LETTERS * len(known.name))
    )


def _runs(pieces: list[str], most: int) -> Iterator[str]:
    """Yield the pieces that stand together, joined, and also without the `s` of a plural."""
    for start in range(len(pieces)):
        run = ""
        for piece in pieces[start:]:
            run += piece
            if len(run) > most:
                break
            yield run
            yield run.removesuffix("s")


def _in_ascii(name: str) -> str | None:
    """Return a name in ordinary letters without their marks; None if it has other characters that are read."""
    tokens = (";" if _is_overlooked(token) else token for token in name.split())
    text = normal_form.normalised("NFC", " ".join(tokens)).translate(_LETTERS)
    parts = (unicodedata.normalize("NFD", character) for character in text)
    plain = "".join(part[0] if part[0].isascii() and part[0].isalpha() else part for part in parts)
    plain = _IN_BRACKETS.sub(r"; \1 ;", plain)
    return plain if _ORDINARY.fullmatch(plain) else None


def _is_overlooked(token: str) -> bool:
    """Tell whether no character of a word is a letter of a known name: emoji, and most ideographs."""
    return not token.isascii() and all(
        unicodedata.east_asian_width(one) in ("W", "F") and look_alikes.readings(one) <= {""} for one in token
    )


def _belongs(place: str | None, known: str) -> bool:
    if place is None or place in _OF_EVERYONE:
        return False
    return place == known or (":" not in known and place.endswith(f".{known}"))


def _plain(name: str) -> str:
    # Drops only ordinary separators between words: a combining dot or a zero-width gap is never written by
    # accident.
    return _GAPS.sub("", normal_form.normalised("NFC", meant(name)).casefold())
