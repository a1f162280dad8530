"""Shows names that would deceive a reader: text direction overrides, invisible and control characters."""

import unicodedata
from typing import Final

#: Control, format (RLO, zero width, soft hyphen), line and paragraph separators, broken surrogates.
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Letters and symbols that are drawn as nothing.
_BLANKS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_LONGEST: Final = 200


def visible(text: str) -> str:
    """Write every hidden character as its code point, such as `<U+202E>`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"<U+{ord(c):04X}>" if _is_hidden(c) else c for c in text)


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or character in _BLANKS


def quoted(text: str) -> str:
    """Write a path for a sentence: visible, in quotes, not too long."""
    shown = visible(text)
    return f"'{shown[:_LONGEST]}…'" if len(shown) > _LONGEST else f"'{shown}'"
