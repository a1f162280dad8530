"""Shows names that would deceive a reader: text direction overrides, invisible and control characters."""

import re
import unicodedata
from typing import Final

#: Control, format (RLO, zero width, soft hyphen), line and paragraph separators, broken surrogates.
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Letters and symbols that are drawn as nothing.
_BLANKS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_LONGEST: Final = 200
#: White space at the beginning or end of a name.
_EDGE: Final = re.compile(r"(?:\A|(?<=/))\s+|\s+(?=/|\Z)")


def visible(text: str) -> str:
    """Write every hidden character as its code point, such as `<U+202E>`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"<U+{ord(c):04X}>" if _is_hidden(c) else c for c in text)


def named(path: str) -> str:
    """Write a name or path as `visible` does, and any space at the beginning or end of a name too."""
    if _EDGE.search(path) is None:
        return visible(path)
    return _EDGE.sub(lambda edge: "".join(f"<U+{ord(c):04X}>" for c in edge[0]), visible(path))


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or character in _BLANKS


def quoted(text: str) -> str:
    """Write a path for a sentence: visible, in quotes, not too long."""
    shown = visible(text)
    return f"'{shown[:_LONGEST]}…'" if len(shown) > _LONGEST else f"'{shown}'"
