# ruff: noqa: RUF001 - letters that look like others are what the tables are about
"""Detects names that look like another name, although they are written with other characters.

As in UTS #39, what counts is the shape of a character. A reader may take one character for several letters: `|` for
`i` and `l`, `ɔ` for `o` and `c`. So each character has a set of readings, which come from:

- its compatibility decomposition (UAX #15), without marks;
- its name in the Unicode Character Database: a Latin letter with a stroke, hook or tail, turned, reversed, or as a
  small capital reads as that letter, and every other letter `… WITH …` reads as the letter without what is added;
- `_LOOKS_LIKE`, for other scripts and signs.

A letter may be doubled. Left out letters are not found: `Clade` is a word of its own.
"""

import re
import string
import unicodedata
from functools import lru_cache
from typing import Final

#: The characters of confusables.txt (UTS #39, 15.1) whose reading the two rules above do not find, and some that
#: readers take for letters although the file does not have them: digits, signs and letters of similar shape.
_LOOKS_LIKE: Final = {
    "a": "4@αаᎪᏎᔯᔰᗅ⍶⍺➃ⲁꓮ𐊠𑢯𖽀",
    "ae": "ӕ",
    "b": "8Ƅȣβбвьѣҍ৪੪ଃᏏᏮᏴᑲᑳᑾᑿᒀᒁᒈᖯᗷ⑹⒍➅➇Ⳓꓐ𐊂𐊡𐌁𐌚𑣕𝟔𝟞𝟨𝟲𝟼🄇🯶",
    "bl": "Ы",
    "c": "¢©ɔϲсᏟᑕ₡ⲥꓚ𐊢𐌂𐐽𐔜𑣩𑣲🅮🝌",
    "d": "∂ԁᎠᏧᑯᑺᑻᒇᗞᗪ₫ꓒꓓ",
    "e": "3ƷȜΕЗеєҽӠᎬ€℮⋿➂ⲉⳌⴹꓰꝪ𐊆𑢦𑢮𑣊𖼻𝈆",
    "f": "ſϜքᖴẝꓝ𐊇𐊥𐔥𑣂𝈓",
    "g": "9ƍԍց৭੧୨൭ᏀᏳ➈ⳊꓖꝮꝰ𑣌𑣖",
    "h": "ΗнћһհᎻᏂᏲᕼⲎꓧꚕ𐋏",
    "i": "˛ιіӏᎥ⍳⍸ꙇ𑣃",
    "j": "ϳјᎫᒍᒘᒙꓙ",
    "k": "κкᏦᛕ₭Ⲕꓗ𐔘",
    "l": "!1|ǀ׀۱Ꮮᒪᒶᒷᛁᣳ∣⏽➀ⲒⳐⵏꓡꓲ￨𐊊𐌉𐌠𐐛𐔦𑢲𖼖𖼨𝈪",
    "ll": "ǁ‖∥𐆙",
    "lo": "Ю⏨➉",
    "m": "ΜϺмᎷᗰᛖⲘꓟꭑ𐊰𐌑",
    "n": "ΝηпոռⲚꓠ𐆎𐔓",
    "o": "0θοσоѳөօ۵०০੦૦ଠ୦௦ం౦ಂ೦ംഠ൦ං๐໐တဝ၀ჿዐᎤᎾᏫ⊖⊝⍬⭕ⲟⴱⵁⵔ〇ꓳ𐊒𐊫𐐬𐓪𐔖𑓐𑢵𑣈𑣗𑣠𝈚🄍🜔",
    "oo": "٪⁒∞ꚙ",
    "p": "ρрᏢᑭᑶᑷᒆᣖ℗⍴ⲣꓑ𐊕",
    "q": "ԛգզⵕ",
    "r": "®ƦгᎡᏒᖇᣴᴦⲅꓣꮁ𐒴𖼵𝈖",
    "rn": "₥𑜀𑣣",
    "s": "$5ƽѕՏᏕᏚᣵ➄ꓢ𐊖𐑈𑢻𑣁𖼺",
    "t": "+7τтᎢ₮⊤⍡➆⟙ⲧꓔ𐊗𐊱𐌕𐓒𑢼𑣆𖼊𝈒🝨",
    "u": "ʋυцսሀᏌᑌᑗᑘᑧ∪⋃ꓴꞟ𐓶𑣘𖽂",
    "v": "νѵ۷Ꮩᐯᐺᐻ∨⋁ⴸꓦꛟ𐆗𐔝𑜆𑣀𖼈𝈍🜈",
    "w": "ɯωшѡԝաᎳᏔ₩ꓪꝡ𑓅𑜊𑜎𑜏𑣦𑣯",
    "x": "×χхᕁᕽ᙭᙮ᚷ╳✕✖❌⤫⤬⨯Ⲭⵝꓫ𐆖𐊐𐊴𐌗𐌢𐔧𑣬",
    "y": "¥ΥγуүყᎩᎽᶌⲨꓬ𐊲𑢤𑣜𖽃",
    "z": "2ƧƻΖϨᏃᒿᙆ➁⨧ꓜꙄꛯꝚ𐋵𑢩𑣄𑣥",
}
#: Latin letters that have a name of their own, by that name.
_NAMED: Final = {
    "ALPHA": "a",
    "BETA": "b",
    "CHI": "x",
    "DELTA": "d",
    "ENG": "n",
    "ESH": "s",
    "ETH": "d",
    "EZH": "z",
    "GAMMA": "y",
    "HENG": "h",
    "IOTA": "i",
    "KRA": "k",
    "OMEGA": "w",
    "SCHWA": "e",
    "THORN": "p",
    "UPSILON": "u",
    "VEND": "v",
    "WYNN": "p",
    "YOGH": "z",
}
_LATIN: Final = re.compile(r"LATIN|REGIONAL INDICATOR|(?:TURNED|REVERSED) (?:SANS-SERIF )?CAPITAL")
_ADDED: Final = re.compile(r" WITH(?:OUT)? ")
_LONGEST_TOKEN: Final = 2
#: What may be any letter: characters of a later version of Unicode, and private ones.
_UNKNOWN: Final = ("Cn", "Co", "Cs")
#: Letters that fonts draw alike, and those that look like a pair. Inscriptions write `V` for `U`.
_ALIKE: Final = str.maketrans("i", "l")
_PAIRS: Final = (("m", "rn"), ("w", "vv"), ("d", "cl"))
_ALSO: Final = (*_PAIRS, ("v", "u"))


def contains(name: str, known: str) -> bool:
    """Tell whether some part of a name can be read as the known name, whatever separates its letters."""
    return any(_contains(name, form) for form in _forms(known))


def _contains(name: str, form: str) -> bool:
    # How many letters of the form may have been read so far; every character may also begin it.
    read = {0}
    for character in name:
        read = {0, *_after(read, character, form)}
        if len(form) in read:
            return True
    return False


def _after(read: set[int], character: str, form: str) -> set[int]:
    seen = readings(character)
    after = {at + len(one) for at in read for one in seen if form.startswith(one, at)}
    after |= {at for at in read if at and form[at - 1] in seen}
    parts = unicodedata.normalize("NFKD", character)
    if parts != character:
        for part in parts:
            read = _after(read, part, form)
        after |= read
    return after


@lru_cache(maxsize=256)
def _forms(known: str) -> tuple[str, ...]:
    forms = ["".join(c for c in known.casefold() if c.isalnum()).translate(_ALIKE)]
    for letter, pair in _PAIRS:
        forms += [form.replace(letter, pair) for form in forms if letter in form]
    return tuple(forms)


@lru_cache(maxsize=4096)
def readings(character: str) -> frozenset[str]:
    """Return what a reader may take a character for: small letters, `""` if it may be overlooked.

    `l` stands for `i`, too. What the decomposition of the character says is not among them.
    """
    if unicodedata.category(character) in _UNKNOWN:
        return frozenset(("", *string.ascii_lowercase))
    found = {part.translate(_ALIKE) for part in _direct(character)}
    found |= {other for letter, other in _ALSO if letter in found}
    return frozenset(found if character.isalnum() else {"", *found})


def _direct(character: str) -> set[str]:
    folded = character.casefold()
    found = _shaped(character)
    if folded != character and len(folded) == 1:
        found |= _shaped(folded)
    return found


def _shaped(character: str) -> set[str]:
    found = {character} if character in string.ascii_lowercase else set[str]()
    found |= _table().get(character, set())
    name = unicodedata.name(character, "")
    base, *added = _ADDED.split(name, maxsplit=1)
    if _LATIN.search(name):
        found |= _latin(base)
    elif added:
        found |= _named(base)
    return found


def _latin(base: str) -> set[str]:
    """Return the letters in the name of a Latin letter: `SMALL CAPITAL D` has `d`, `SMALL LETTER AE` has `ae`."""
    tokens = base.split()
    letters = [token.lower() for token in tokens if len(token) <= _LONGEST_TOKEN and token.isalpha()][:1]
    return {*letters, *(_NAMED[token] for token in tokens if token in _NAMED)}


def _named(name: str) -> set[str]:
    try:
        return _direct(unicodedata.lookup(name))
    except KeyError:
        return set()


@lru_cache(maxsize=1)
def _table() -> dict[str, set[str]]:
    table: dict[str, set[str]] = {}
    for letters, looks in _LOOKS_LIKE.items():
        for look in looks:
            table.setdefault(look, set()).add(letters)
    return table
