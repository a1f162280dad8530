"""Etags in one form: bare in tools, quoted in `If-Match`."""

import re
from collections.abc import Mapping

from nextcloud_mcp_server.errors import InvalidInput, ServerFault

_BARE = re.compile(r"[\x21\x23-\x29\x2b-\x7e]{1,256}")


#: Suffixes of etags whose body a web server compressed; Nextcloud does not know these etags. Apache's mod_deflate
#: and mod_brotli write `-gzip` and `-br`, others `;gzip`, Jetty `--gzip`.
_COMPRESSED = re.compile(r"(?:--?|;)(?:gzip|br|deflate|zstd)\"?$")
_WEAK = re.compile(r"[Ww]/")


def normalise(text: str) -> str:
    """Remove the quotes, the weakness mark and the suffix of a compressing web server."""
    bare = text.strip()
    if _WEAK.match(bare):
        bare = bare[2:].strip()
    return _COMPRESSED.sub("", bare).strip('"')


def known(text: str) -> str | None:
    """Normalise the etag of a response; None when it is missing."""
    return normalise(text) or None


def quote(text: str) -> str:
    """Return an etag as `If-Match` needs it; unquoted or weak ones make Nextcloud answer 412.

    Raises:
      InvalidInput: It is not a valid etag. `*` is not allowed: it would overwrite any version.
    """
    bare = normalise(text)
    if not _BARE.fullmatch(bare):
        raise InvalidInput("That is not an etag: pass on, unchanged, the one that reading it answered.")
    return f'"{bare}"'


def required(etag: str | None) -> str:
    """Return an etag that a conditional write needs.

    Raises:
      ServerFault: Nextcloud sent none, so the write cannot be conditional.
    """
    if not etag:
        raise ServerFault(
            "Nextcloud named no version (etag) of it, so a change cannot be guarded against overwriting what others "
            "changed, and nothing was written: read it again, and try once more. If that does not help, the "
            "administrator should look for a proxy that takes ETag headers away."
        )
    return etag


def parse(text: str) -> str | None:
    """Read the `getetag` of a DAV response; None when it is missing or not valid in a header."""
    if not text:
        return None
    bare = normalise(text)
    # A line break in it would begin another header.
    return bare if bare and bare.isascii() and bare.isprintable() else None


def of(headers: Mapping[str, str]) -> str | None:
    """Return the etag of a response. `OC-ETag` takes precedence: proxies rewrite or drop only `ETag`."""
    return known(headers.get("OC-ETag", "")) or known(headers.get("ETag", ""))
