# ruff: noqa: RUF001 - letters that look like others are what the tables are about
"""Detects names that look like another name, although they are written with other characters.

As in UTS #39, what counts is the shape of a character. A reader may take one character for several letters: `|` for
`i` and `l`, `ɔ` for `o` and `c`. So each character has a set of readings, which come from:

- its compatibility decomposition (UAX #15), without marks;
- its name in the Unicode Character Database: a Latin letter with a stroke, hook or tail, turned, reversed, or as a
  small capital reads as that letter, and every other letter `… WITH …` reads as the letter without what is added;
- `_LOOKS_LIKE`, for other scripts and signs.

A letter may be doubled. Left out letters are not found: `Clade` is a word of its own.

No table has every sign. So in a long name one character may stand for any letter if it is no Latin letter and no
ordinary punctuation (`_may_be_any`), and if the next letter follows it directly. It is never the last letter: people
write `Code™` and `Curso: Python`.
"""

import re
import string
import unicodedata
from functools import lru_cache
from typing import Final

#: The characters of confusables.txt (UTS #39, 15.1) whose reading the two rules above do not find, and some that
#: readers take for letters although the file does not have them: digits, signs and letters of similar shape.
_LOOKS_LIKE: Final = {
    "a": "4@αаᎪᏎᔯᔰᗅ⍶⍺➃ⲁꓮ𐊠𑢯𖽀^卂∆△▲∀∧⋀",
    "ae": "ӕ",
    "b": "8Ƅȣβбвьѣҍ৪੪ଃᏏᏮᏴᑲᑳᑾᑿᒀᒁᒈᖯᗷ⑹⒍➅➇Ⳓꓐ𐊂𐊡𐌁𐌚𑣕𝟔𝟞𝟨𝟲𝟼🄇🯶6乃",
    "bl": "Ы",
    "c": "¢©ɔϲсᏟᑕ₡ⲥꓚ𐊢𐌂𐐽𐔜𑣩𑣲🅮🝌([{<€⊂⊏⋐∁☾匚ㄈ",
    "d": "∂ԁᎠᏧᑯᑺᑻᒇᗞᗪ₫ꓒꓓ刀",
    "e": "3ƷȜΕЗеєҽӠᎬ€℮⋿➂ⲉⳌⴹꓰꝪ𐊆𑢦𑢮𑣊𖼻𝈆乇Ξξ∃∑Σ∈∊𐌄三",
    "f": "ſϜքᖴẝꓝ𐊇𐊥𐔥𑣂𝈓下",
    "g": "9ƍԍց৭੧୨൭ᏀᏳ➈ⳊꓖꝮꝰ𑣌𑣖6厶",
    "h": "ΗнћһհᎻᏂᏲᕼⲎꓧꚕ𐋏#卄",
    "i": "˛ιіӏᎥ⍳⍸ꙇ𑣃工",
    "j": "ϳјᎫᒍᒘᒙꓙ丁",
    "k": "κкᏦᛕ₭Ⲕꓗ𐔘长",
    "l": "!1|ǀ׀۱Ꮮᒪᒶᒷᛁᣳ∣⏽➀ⲒⳐⵏꓡꓲ￨𐊊𐌉𐌠𐐛𐔦𑢲𖼖𖼨𝈪£乚ㄥ¡¦│┃❘❙⎮⎸⏐▏▕⌊└╚⎿",
    "ll": "ǁ‖∥𐆙",
    "lo": "Ю⏨➉",
    "m": "ΜϺмᎷᗰᛖⲘꓟꭑ𐊰𐌑从",
    "n": "ΝηпոռⲚꓠ𐆎𐔓~几",
    "o": "0θοσоѳөօ۵०০੦૦ଠ୦௦ం౦ಂ೦ംഠ൦ං๐໐တဝ၀ჿዐᎤᎾᏫ⊖⊝⍬⭕ⲟⴱⵁⵔ〇ꓳ𐊒𐊫𐐬𐓪𐔖𑓐𑢵𑣈𑣗𑣠𝈚🄍🜔口○◯●⬤⊙⦿◉☉⚪⚫🞅",
    "oo": "٪⁒∞ꚙ",
    "p": "ρрᏢᑭᑶᑷᒆᣖ℗⍴ⲣꓑ𐊕尸",
    "q": "ԛգզⵕ㔿",
    "r": "®ƦгᎡᏒᖇᣴᴦⲅꓣꮁ𐒴𖼵𝈖尺Яя",
    "rn": "₥𑜀𑣣",
    "s": "$5ƽѕՏᏕᏚᣵ➄ꓢ𐊖𐑈𑢻𑣁𖼺§丂",
    "t": "+7τтᎢ₮⊤⍡➆⟙ⲧꓔ𐊗𐊱𐌕𐓒𑢼𑣆𖼊𝈒🝨丅†‡┬╤",
    "u": "ʋυцսሀᏌᑌᑗᑘᑧ∪⋃ꓴꞟ𐓶𑣘𖽂µμ凵⊔∐",
    "v": "νѵ۷Ꮩᐯᐺᐻ∨⋁ⴸꓦꛟ𐆗𐔝𑜆𑣀𖼈𝈍🜈リ",
    "w": "ɯωшѡԝաᎳᏔ₩ꓪꝡ𑓅𑜊𑜎𑜏𑣦𑣯山",
    "x": "×χхᕁᕽ᙭᙮ᚷ╳✕✖❌⤫⤬⨯Ⲭⵝꓫ𐆖𐊐𐊴𐌗𐌢𐔧𑣬乂✗✘☓❎🗙",
    "y": "¥ΥγуүყᎩᎽᶌⲨꓬ𐊲𑢤𑣜𖽃丫",
    "z": "2ƧƻΖϨᏃᒿᙆ➁⨧ꓜꙄꛯꝚ𐋵𑢩𑣄𑣥乙",
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
#: A shorter name has too little left if one letter is unknown.
_LONG: Final = 5
_QUOTES: Final = "\"'`´"
#: What may be any letter: characters of a later version of Unicode, and private ones.
_UNKNOWN: Final = ("Cn", "Co", "Cs")
#: Letters that fonts draw alike, and those that look like a pair. Inscriptions write `V` for `U`.
_ALIKE: Final = str.maketrans("i", "l")
_PAIRS: Final = (("m", "rn"), ("w", "vv"), ("d", "cl"))
_ALSO: Final = (*_PAIRS, ("v", "u"))


def contains(name: str, known: str) -> bool:
    """Tell whether some part of a name can be read as the known name, whatever separates its letters."""
    return any(_contains(name, form) for form in _forms(known))


def reads_as(word: str, known: str) -> bool:
    """Tell whether a word as a whole can be read as the known name."""
    return any(_reads_as(word, form) for form in _forms(known))


def _reads_as(word: str, form: str) -> bool:
    read = {0}
    for character in word:
        read = _after(read, character, form)
    return len(form) in read


def _contains(name: str, form: str) -> bool:
    # How many letters of the form may have been read so far; every character may also begin it. Of those in `one_any`
    # one letter was read from a character that may be any.
    read, one_any, before = {0}, set[int](), " "
    any_now = set[int]()
    for character in name:
        one_any = _after(one_any, character, form) | _followed(any_now, character, form)
        any_now = _guessed(read, before, character, form)
        read = {0, *_after(read, character, form)}
        if len(form) in read or len(form) in one_any:
            return True
        before = character
    return False


def _guessed(read: set[int], before: str, character: str, form: str) -> set[int]:
    """Return how many letters may have been read if a character may be any; never all of them."""
    if len(form) < _LONG or character.isspace():
        return set()
    if _may_be_any(character):
        return {at + 1 for at in read if at + 1 < len(form)}
    # As the first letter of a word a sign is no punctuation between two words.
    is_sign = (
        not character.isalnum()
        and character not in _QUOTES
        and unicodedata.category(character) not in ("Pi", "Pf")
    )
    return {1} if is_sign and not before.isalnum() else set()


def _may_be_any(character: str) -> bool:
    if character.isascii() or _LATIN.search(unicodedata.name(character, "")):
        return False
    kind = unicodedata.category(character)
    # Ideographs and kana stand directly beside Latin words.
    is_wide = unicodedata.east_asian_width(character) in ("W", "F")
    return (kind in ("Lm", "Sk") or kind[0] in "LN") and not is_wide and character not in _QUOTES


def _followed(at: set[int], character: str, form: str) -> set[int]:
    """Return how many letters may have been read with a character that is not overlooked."""
    return {more for one in at for more in _after({one}, character, form) if more > one}


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
