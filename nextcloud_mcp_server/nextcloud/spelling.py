"""Equivalent spellings: of URLs (RFC 3986 §6.2), and of texts in Unicode."""

import re
import unicodedata
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import normal_form

#: The ports that an address need not name, by scheme.
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
#: More than any query of a user has.
_MOST_WORDS: Final = 100
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
#: RFC 3986 §2.3: escaped or not, these are equivalent.
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")


def canonical(url: str) -> str:
    """Normalise an http(s) URL, so that equivalent spellings are equal; return others unchanged.

    Only what RFC 3986 §6.2.2 and §6.2.3 call equivalent is normalised, and a trailing slash.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    scheme = parts.scheme
    # `urlsplit` drops some control characters, so a URL with them is equivalent to no other.
    if scheme not in DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc or not _is_plain(url):
        return url
    query = f"?{parts.query}" if parts.query else ""
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    path = _ESCAPE.sub(_escape, parts.path).removesuffix("/")
    return f"{scheme}://{_authority(parts, port, scheme)}{path}{query}{fragment}"


def same(left: str, right: str) -> bool:
    """Tell whether two URLs, or two other names, are equivalent."""
    return left == right or canonical(left) == canonical(right)


def host(value: str, scheme: str) -> str:
    """Normalise a Host header (RFC 9110 §7.2), without the default port."""
    if not _is_plain(value) or re.search(r"[/\\@?#%]", value):
        return value
    try:
        parts = urlsplit(f"//{value}")
        port = parts.port
    except ValueError:
        return value
    return _authority(parts, port, scheme) if parts.hostname else value


def is_address(value: str) -> bool:
    """Tell whether a Host header contains an IP address."""
    name, _, port = value.rpartition("]") if value.startswith("[") else value.partition(":")
    try:
        ip_address(name.removeprefix("["))
    except ValueError:
        return False
    return re.fullmatch(r":?[0-9]{0,5}", port) is not None


def composed(text: str) -> str:
    """Normalise a text to NFC, in which Nextcloud stores names."""
    return normal_form.normalised("NFC", text)


def folded(text: str) -> str:
    """Normalise texts for comparison: NFC, without case."""
    return "".join(_folded_pieces(text))


def has_words(query: str, *texts: str) -> bool:
    """Tell whether the texts contain every word of a query, in any letter case.

    Raises:
      InvalidInput: It has too many words: each is looked up in each text.
    """
    missing = set(folded(query).split())
    if len(missing) > _MOST_WORDS:
        raise InvalidInput(f"A query cannot have more than {_MOST_WORDS} different words: shorten it.")
    longest = max(map(len, missing), default=0)
    end = ""
    # The text without case as a whole would take several times its memory.
    for piece in _folded_pieces("\n".join(texts)):
        there = end + piece
        missing = {word for word in missing if word not in there}
        if not missing:
            return True
        # A word may begin in one piece and end in the next.
        end = there[-longest:]
    return not missing


def _folded_pieces(text: str) -> Iterator[str]:
    for piece in normal_form.pieces(text):
        yield unicodedata.normalize("NFC", piece).casefold()


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _authority(parts: SplitResult, port: int | None, scheme: str) -> str:
    name = (parts.hostname or "").removesuffix(".")
    name = f"[{name}]" if ":" in name else name
    return name if port in (None, DEFAULT_PORTS.get(scheme)) else f"{name}:{port}"


def _escape(match: re.Match[str]) -> str:
    character = chr(int(match[0][1:], 16))
    return character if _UNRESERVED.fullmatch(character) else match[0].upper()
