"""Etags in one form: bare, as tools show them; quoted, as `If-Match` wants them."""

import re
from collections.abc import Mapping

from nextcloud_mcp_server.errors import InvalidInput, ServerFault

_BARE = re.compile(r"[\x21\x23-\x29\x2b-\x7e]{1,256}")


#: What is put behind an etag of which the body was compressed on the way; Nextcloud never saw that name. Apache's
#: mod_deflate and mod_brotli write `-gzip` and `-br`, others `;gzip`, Jetty `--gzip`.
_COMPRESSED = re.compile(r"(?:--?|;)(?:gzip|br|deflate|zstd)\"?$")
_WEAK = re.compile(r"[Ww]/")


def normalise(text: str) -> str:
    """Strip quotes, the weak mark and what a compressing web server appends."""
    bare = text.strip()
    if _WEAK.match(bare):
        bare = bare[2:].strip()
    return _COMPRESSED.sub("", bare).strip('"')


def known(text: str) -> str | None:
    """Read the etag that an answer told; None when it told none."""
    return normalise(text) or None


def quote(text: str) -> str:
    """Write an etag as `If-Match` needs it; without quotes, or weak, Nextcloud answers 412.

    Raises:
        InvalidInput: It cannot be an etag. `*` is none: it would overwrite whatever is there.
    """
    bare = normalise(text)
    if not _BARE.fullmatch(bare):
        raise InvalidInput("That is not an etag: pass on, unchanged, the one that reading it answered.")
    return f'"{bare}"'


def required(etag: str | None) -> str:
    """Give the etag that a guarded write compares.

    Raises:
        ServerFault: Nextcloud named none, so the write cannot be guarded.
    """
    if not etag:
        raise ServerFault(
            "Nextcloud named no version (etag) of it, so a change cannot be guarded against overwriting what others "
            "changed, and nothing was written: read it again, and try once more. If that does not help, the "
            "administrator should look for a proxy that takes ETag headers away."
        )
    return etag


def told(text: str) -> str | None:
    """Read the `getetag` of a DAV answer; None when there is none, or none that may go into a header."""
    if not text:
        return None
    bare = normalise(text)
    # A line break in it would begin another header.
    return bare if bare and bare.isascii() and bare.isprintable() else None


def of(headers: Mapping[str, str]) -> str | None:
    """Find the etag of an answer. `OC-ETag` wins: proxies rewrite or drop `ETag`, but not that one."""
    return known(headers.get("OC-ETag", "")) or known(headers.get("ETag", ""))
