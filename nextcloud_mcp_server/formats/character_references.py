"""Decodes character references of HTML (HTML Standard, 13.5)."""

import html
import re
from typing import Final

_REFERENCE: Final = re.compile(r"&#(?:0*(?P<decimal>[0-9]+)|(?P<mark>[xX])0*(?P<hex>[0-9a-fA-F]+))")
#: Beyond the last code point, which is 1,114,111 or 10FFFF.
_TOO_LARGE: Final = {"decimal": "&#9999999", "hex": "&#xFFFFFF"}
_MOST_DIGITS: Final = {"decimal": 7, "hex": 6}


def unescape(text: str) -> str:
    """Decode all references; a number beyond the last code point becomes U+FFFD, however many digits it has.

    `html.unescape` alone raises ValueError for more than 4,300 digits.
    """
    return html.unescape(_REFERENCE.sub(_bounded, text)) if "&" in text else text


def _bounded(match: re.Match[str]) -> str:
    kind = "decimal" if match["decimal"] is not None else "hex"
    digits = match[kind]
    return _TOO_LARGE[kind] if len(digits) > _MOST_DIGITS[kind] else f"&#{match['mark'] or ''}{digits}"
