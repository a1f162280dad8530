# ruff: noqa: RUF001 - letters that look like others are what the table is about
"""Known client names, the hosts they belong to, and the detection of names that imitate them.

Any client may call itself anything. A name is compared by its skeleton, as in UTS #39: hidden and combining
characters are dropped, letters of other scripts and digits that look like Latin letters become those, and `i`,
`l`, `1` and `|` are one character. The table is small: it has the characters that imitate the names below.
"""

import re
import unicodedata
from dataclasses import dataclass

from nextcloud_mcp_server.nextcloud.sanitize import meant, without_hidden


@dataclass(frozen=True, slots=True)
class _Known:
    """A known name, and its places: hosts with all their subdomains, and schemes of its programs."""

    name: str
    places: tuple[str, ...]


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
_KNOWN = (
    _Known("Claude", _ANTHROPIC),
    _Known("Anthropic", _ANTHROPIC),
    _Known("ChatGPT", _OPENAI),
    _Known("OpenAI", _OPENAI),
    _Known("Codex", _OPENAI),
    _Known("Cursor", ("cursor.com", "cursor.sh", "cursor:")),
    _Known("VS Code", _MICROSOFT),
    _Known("Visual Studio", _MICROSOFT),
    _Known("Copilot", _MICROSOFT),
    _Known("Gemini", _GOOGLE),
    _Known("Mistral", ("mistral.ai",)),
    _Known("Le Chat", ("mistral.ai",)),
    _Known("Perplexity", ("perplexity.ai",)),
    _Known("Windsurf", ("windsurf.com", "codeium.com", "windsurf:")),
    _Known("LibreChat", ("librechat.ai",)),
    _Known("Nextcloud", ("nextcloud.com",)),
)

#: Look-alikes after compatibility decomposition and case folding: Cyrillic, Greek, Armenian, Cherokee, Lisu, small
#: capitals and other Latin letters, digits and signs (confusables.txt of UTS #39, as far as it concerns the names).
_LOOKS_LIKE = {
    "a": "аαɑᴀꭺꓮ4@ⲁⱥ",
    "b": "вьβʙƅꓐƀ",
    "c": "сϲꮯꓚᴄ¢ⲥȼᑕ𐌂",
    "d": "ԁɗᴅꓓꭰđðᗞᗪ",
    "e": "еєεҽᴇꓰꭼ3℮ⲉɇ",
    "f": "ꜰẝꓝ",
    "g": "ɡցɢԍɕǥ",
    "h": "һհнʜꓧꮋħ",
    "k": "кκᴋꓗꮶꝁ",
    "l": "iіıιӏlⅼꙇɩɪʟ1|!ꮮꓡǀ׀ɨ∣اłƚⱡⵏ",
    "m": "мᴍꓟꮇ",
    "n": "ոռηпɴꓠꞥ",
    "o": "оοօσᴏ0ꓳⲟøⱺ",
    "p": "рρᴘꓑꮲⲣƥᑭꝑ",
    "r": "гᴦʀꭱꓣɍ",
    "s": "ѕꜱ5$ꓢꮪꞩ",
    "t": "тτᴛꓔꭲⲧŧ",
    "u": "սυцᴜʋꓴʉ∪",
    "v": "ѵνᴠꓦꮩ",
    "w": "ԝωшᴡꓪꮃ",
    "x": "хχ×ꓫ",
    "y": "уүγʏꓬɏ",
}
#: White letters in black circles and squares, and those of flags, have no decomposition.
_ALPHABETS = (0x1F150, 0x1F170, 0x1F1E6)
#: Cherokee letters are folded to capitals, all others to small ones.
_FOLD = {
    ord(form): letter
    for letter, looks in _LOOKS_LIKE.items()
    for look in looks
    for form in (look, look.casefold())
} | {first + at: chr(ord("a") + at) for first in _ALPHABETS for at in range(26)}
_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_GAPS = re.compile(r"[\s_.-]+")
_NO_LETTERS = re.compile(r"[\W_]+")


def imitated(name: str, place: str | None) -> str | None:
    """Return the known client that a name equals or imitates, unless `place` is one of that client's.

    `place` is the host or scheme (with its colon) that is known of the client. It is None if only an id or a
    program on the user's computer is known: there an ordinary spelling proves nothing, and only look-alike
    letters count as an imitation.
    """
    plain, skeleton = _plain(name), _skeleton(name)
    for known in _KNOWN:
        looks = _skeleton(known.name) in skeleton
        if not looks or any(_belongs(place, one) for one in known.places):
            continue
        if place is not None or _plain(known.name) not in plain:
            return known.name
    return None


def _belongs(place: str | None, known: str) -> bool:
    return place is not None and (place == known or (":" not in known and place.endswith(f".{known}")))


def _plain(name: str) -> str:
    # Drops only ordinary separators between words: a combining dot or a zero-width gap is never written by
    # accident.
    return _GAPS.sub("", unicodedata.normalize("NFC", meant(name)).casefold())


def _skeleton(name: str) -> str:
    seen = without_hidden(meant(name))
    decomposed = unicodedata.normalize("NFKD", seen.casefold().translate(_FOLD)).casefold()
    letters = "".join(c for c in decomposed if not unicodedata.category(c).startswith("M"))
    folded = _NO_LETTERS.sub("", letters.translate(_FOLD))
    for pair, letter in _PAIRS:
        folded = folded.replace(pair, letter)
    return folded
