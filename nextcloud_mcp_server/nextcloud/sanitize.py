"""Writes hidden characters as visible escapes such as `<U+202E>`, and reads these again.

Hidden are control and format characters, what Unicode calls default ignorable (UAX #44), the line and paragraph
separators, and letters that are rendered as nothing. Three kinds stay, because their effect is visible:

- in emoji: one variation selector after one, a joiner between two (UAX #29, GB11), keycaps, the three flags made
  of tags (UTS #51);
- joiners where orthography needs them: CONTEXTJ of RFC 5892 (appendix A.1 and A.2), as UTS #39 and UAX #31 adopt
  it, and RA, joiner, virama, YA in Bengali (The Unicode Standard, 12.2);
- variation selectors directly after a Mongolian letter (The Unicode Standard, 13.5).
"""

import json
import re
from functools import cache
from typing import Final

_LONGEST: Final = 200
_SPACES: Final = re.compile(r"\s+")
#: Characters that would break the line of a name.
_BREAKS: Final = "\t\n"

#: All hidden characters except tab and line ends. `test_sanitize.py` compares it with the Unicode Character
#: Database.
_HIDDEN_CLASS: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Extended_Pictographic of emoji-data.txt.
_PICTURE_CLASS: Final = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388\u23cf\u23e9-\u23f3"
    "\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605\u2607-\u2612\u2614-\u2685"
    "\u2690-\u2705\u2708-\u2712\u2714\u2716\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e"
    "\u2753-\u2755\u2757\u2763-\u2767\u2795-\u2797\u27a1\u27b0\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c"
    "\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f"
    "\U0001f16c-\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a\U0001f1ad-\U0001f1e5"
    "\U0001f201-\U0001f20f\U0001f21a\U0001f22f\U0001f232-\U0001f23a\U0001f23c-\U0001f23f"
    "\U0001f249-\U0001f3fa\U0001f400-\U0001f53d\U0001f546-\U0001f64f\U0001f680-\U0001f6ff"
    "\U0001f774-\U0001f77f\U0001f7d5-\U0001f7ff\U0001f80c-\U0001f80f\U0001f848-\U0001f84f"
    "\U0001f85a-\U0001f85f\U0001f888-\U0001f88f\U0001f8ae-\U0001f8ff\U0001f90c-\U0001f93a"
    "\U0001f93c-\U0001f945\U0001f947-\U0001faff\U0001fc00-\U0001fffd"
)
_EMOJI: Final = f"[{_PICTURE_CLASS}](?:[\ufe0e\ufe0f]|[\U0001f3fb-\U0001f3ff])?"
_FLAGS: Final = "|".join("".join(chr(0xE0000 + ord(c)) for c in name) for name in ("gbeng", "gbsct", "gbwls"))
_KEPT: Final = (
    f"\U0001f3f4(?:{_FLAGS})\U000e007f|{_EMOJI}(?:\u200d{_EMOJI})*|[#*0-9]\ufe0f\u20e3|\u09b0\u200d(?=\u09cd\u09af)"
    "|[\u1820-\u18aa](?:[\u180b-\u180d\u180f]|\u180e(?=[\u1820\u1821]))"
)
_HIDDEN: Final = re.compile(f"[{_HIDDEN_CLASS}]")
_MAY_CHANGE: Final = re.compile(f"[{_HIDDEN_CLASS}\r]|<U\\+")
#: JSON escapes of control characters other than tab and line feed.
_JSON_CONTROL: Final = re.compile(r"\\u00[0-9a-f]{2}")
_IN_JSON: Final = ("\\u00", "\\b", "\\f", "\\r")
_JOINERS: Final = "\u200c\u200d"
#: How many marks CONTEXTJ skips; no real word has so many on one letter.
_AROUND: Final = 8

_ESCAPE: Final = re.compile(r"<U\+([0-9A-F]{4,6})>")
_RANGE: Final = re.compile("(.)(?:-(.))?", re.DOTALL)
_ONE_LINE: Final = re.compile(f"(?P<kept>{_KEPT})|[{_HIDDEN_CLASS}\t\n\r]")
_TEXT: Final = re.compile(f"(?P<kept>{_KEPT}|\r\n)|[{_HIDDEN_CLASS}\r]|<(?=U\\+[0-9A-F]{{4,6}}>)")


def is_plain(text: str) -> bool:
    """Tell quickly whether a text is visible ASCII, without line ends; most names and many answers are."""
    return text.isascii() and text.isprintable()


def escape_hidden(text: str) -> str:
    """Escape hidden characters in a name or sentence, including tabs and line ends, as `<U+202E>`."""
    if is_plain(text):
        return text
    return _ONE_LINE.sub(_written, text)


def may_hide(written: str) -> bool:
    """Tell quickly whether a whole JSON response may contain hidden characters; hardly any does."""
    return _may_change(written) or ("\\" in written and any(mark in written for mark in _IN_JSON))


def _may_change(text: str) -> bool:
    # The first test takes a tenth of the time of the second.
    return "<U+" in text if is_plain(text) else _MAY_CHANGE.search(text) is not None


def shown(text: str) -> str:
    """Escape hidden characters in a text, so that `meant` restores the text.

    Tabs and line ends stay. Where the text itself contains something like `<U+202E>`, its first character is escaped.
    """
    if not _may_change(text):
        return text
    if "\r" in text and "\n" not in text:
        return "\r".join(_TEXT.sub(_written, line) for line in text.split("\r"))
    return _TEXT.sub(_written, text)


def meant(text: str) -> str:
    """Return the original text; hidden characters may be raw, or escaped as `shown` does."""
    if "<U+" not in text:
        return text
    known = _escapes()
    return _ESCAPE.sub(lambda found: known.get(found[0], found[0]), text)


def without_hidden(text: str) -> str:
    """Remove hidden characters, for names on a page, which are never written back."""
    return _HIDDEN.sub("", text)


def sent_bytes(text: str) -> int:
    """Return the size of a text in a response, in bytes: escaped, in JSON."""
    return len(json.dumps(shown(text), ensure_ascii=False).encode("utf-8", "replace"))


def sent_twice(text: str) -> int:
    """Return the size of a text that is sent both in JSON and as it is, in bytes."""
    return len(shown(text).encode("utf-8", "replace")) + sent_bytes(text)


def grows_by(written: bytes) -> int:
    """Return by how many bytes a JSON text grows at most when `shown` escapes it."""
    # The digits of an escape are not part of the text: after a digit, U+FE0F and U+20E3 would be a keycap.
    text = _JSON_CONTROL.sub("\\\\u00  ", written.decode("utf-8", "replace"))
    # JSON has escaped control characters already, with six bytes or with two.
    escapes = 2 * text.count("\\u00") + 6 * sum(text.count(mark) for mark in ("\\b", "\\f", "\\r"))
    return escapes + len(shown(text).encode("utf-8", "replace")) - len(written)


def named(path: str) -> str:
    """Escape spaces at the ends of a name, tabs and line ends; `shown` escapes the rest."""
    if " " not in path and path.isprintable():
        # No other white space is printable.
        return path
    return _SPACES.sub(_named, path)


def _named(spaces: re.Match[str]) -> str:
    path, start, end = spaces.string, spaces.start(), spaces.end()
    # Looking behind the spaces in a pattern would cost the square of their number.
    at_edge = start == 0 or path[start - 1] == "/" or end == len(path) or path[end] == "/"
    return "".join(_space(each) if at_edge or each in _BREAKS else each for each in spaces[0])


def escaped_start(text: str, most: int) -> str:
    """Escape hidden characters of the beginning of a text; return at most `most` characters.

    Texts may be megabytes long, so the rest is left before anything is escaped.
    """
    return escape_hidden(text[: most + _AROUND])[:most]


def quoted(text: str) -> str:
    """Return a path for a sentence: escaped, in quotes, shortened."""
    seen = escaped_start(text, _LONGEST + 1)
    return f"'{seen[:_LONGEST]}…'" if len(seen) > _LONGEST else f"'{seen}'"


def cited(text: str) -> str:
    """Return a path for a sentence in a response that is escaped later: in quotes, shortened."""
    return f"'{cut(text, _LONGEST)}'"


def cut(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters after escaping."""
    if len(text) <= most and len(shown(text)) <= most:
        return text
    part = text[: most - 1]
    while (excess := len(shown(part)) - most + 1) > 0:
        # An escape such as `<U+E0041>` has nine characters, so this removes no more than needed.
        part = part[: -max(1, excess // 9)]
    return f"{part}…"


def _space(character: str) -> str:
    return character if _HIDDEN.match(character) or character == "\r" else _escape(character)


def _written(found: re.Match[str]) -> str:
    character = found[0]
    if found["kept"] is not None or (character in _JOINERS and _is_needed(found.string, found.start())):
        return character
    if character == "<":
        escape = _ESCAPE.match(found.string, found.start())
        return _escape(character) if escape is not None and escape[0] in _escapes() else character
    return _escape(character)


def _is_needed(text: str, at: int) -> bool:
    # Its tables take a while to load, and hardly any text has a joiner.
    import idna  # noqa: PLC0415  # see above

    start = max(0, at - _AROUND)
    try:
        return idna.valid_contextj(text[start : at + _AROUND], at - start)
    except ValueError:
        # The combining class of the character before is unknown.
        return False


def _escape(character: str) -> str:
    return f"<U+{ord(character):04X}>"


@cache
def _escapes() -> dict[str, str]:
    """Return every escape and its character; a text of megabytes may contain a hundred thousand of them."""
    known = {_escape(character): character for character in "<\r"}
    for first, last in _RANGE.findall(_HIDDEN_CLASS):
        for code in range(ord(first), ord(last or first) + 1):
            if not 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004 - halves of pairs
                known[_escape(chr(code))] = chr(code)
    return known
