"""WebDAV URLs and request bodies: the only place that encodes names and decodes hrefs.

Names are opaque. A tool's path is split at `/` and each part is encoded exactly once; an href is split first and each
part is decoded exactly once, so a file called `a%62c.txt` stays that file.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud.spelling import composed

#: Nextcloud's limits are 255 bytes for a name and 4000 for a path; it answers 400 to longer ones.
MAX_NAME_BYTES: Final = 255
MAX_PATH_BYTES: Final = 4000

#: Nextcloud answers for every such name as if an upload were in progress there.
KEPT_ENDING: Final = ".part"

_SEARCH_NAMESPACE: Final = "https://github.com/icewind1991/SearchDAV/ns"

SERVICE: Final = "/remote.php/dav"
_BEGINNING: Final = f"{SERVICE}/"
_SERVICE_PARTS: Final = 2
XML_HEADERS: Final = {"Content-Type": "application/xml; charset=utf-8"}

_NAMESPACES: Final = {
    "d": "DAV:",
    "oc": "http://owncloud.org/ns",
    "nc": "http://nextcloud.org/ns",
    "cal": "urn:ietf:params:xml:ns:caldav",
    "cs": "http://calendarserver.org/ns/",
    "card": "urn:ietf:params:xml:ns:carddav",
    "trash": "http://nextcloud.com/ns",
}
#: The namespace declarations, for the root element of a body.
DECLARED: Final = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in _NAMESPACES.items())
FIRST_PRINTABLE: Final = 0x20

Segments = tuple[str, ...]


@cache
def name(qualified: str) -> str:
    """Return a qualified name as lxml writes it: `oc:size` becomes `{http://owncloud.org/ns}size`."""
    prefix, _, local = qualified.partition(":")
    return f"{{{_NAMESPACES[prefix]}}}{local}"


def split(path: str) -> Segments:
    """Split a path into segments and check each of them.

    Raises:
      InvalidInput: It contains `..`, a control character or a backslash, or is too long.
    """
    too_long = errors.InvalidInput(f"A path cannot be longer than {MAX_PATH_BYTES} bytes: shorten it.")
    if len(path) > MAX_PATH_BYTES:
        # Checking megabytes of it would delay all other users.
        raise too_long
    segments = tuple(part for part in path.split("/") if part)
    for segment in segments:
        _check(segment)
    if sum(len(segment.encode()) + 1 for segment in segments) > MAX_PATH_BYTES:
        raise too_long
    return segments


def _check(segment: str) -> None:
    if segment in (".", ".."):
        raise errors.InvalidInput("A path cannot hold '.' or '..': give the full path from the top folder.")
    if any(ord(character) < FIRST_PRINTABLE for character in segment):
        raise errors.InvalidInput("A name cannot hold control characters such as line breaks.")
    if "\\" in segment:
        raise errors.InvalidInput("A name cannot hold a backslash; folders are separated by '/'.")
    try:
        encoded = segment.encode()
    except UnicodeEncodeError:
        raise errors.InvalidInput("A name must be valid Unicode text.") from None
    if len(encoded) > MAX_NAME_BYTES:
        raise errors.InvalidInput(f"A name cannot be longer than {MAX_NAME_BYTES} bytes: shorten it.")


def is_kept(segment: str) -> bool:
    """Tell whether Nextcloud reserves this name for uploads in progress."""
    return segment.lower().endswith(KEPT_ENDING)


def join(segments: Iterable[str]) -> str:
    """Write segments as the path a tool shows: `Documents/a b.txt`, or `/` for the top folder."""
    return "/".join(segments) or "/"


def encode(segments: Iterable[str]) -> str:
    """Percent-encode segments, each exactly once."""
    return "/".join(quote(segment, safe="") for segment in segments)


def same(left: Segments, right: Segments) -> bool:
    """Compare two paths as Nextcloud does, which stores names in Unicode form NFC."""
    if left == right:
        return True
    # Comparing lengths first saves normalising the folder's name for every child of a listing.
    return len(left) == len(right) and [*map(composed, left)] == [*map(composed, right)]


@dataclass(frozen=True, slots=True)
class Tree:
    """One user's part of the DAV service; every DAV URL of this program is built here."""

    root: Segments

    @classmethod
    def of(cls, collection: str, uid: str, *below: str) -> "Tree":
        """Return a user's tree of a collection, such as `files` or `trashbin`.

        Raises:
          InvalidInput: The uid would change the meaning of the URL.
        """
        if uid in ("", ".", ".."):
            raise errors.InvalidInput("This user id cannot be used in an address.")
        return cls((collection, uid, *below))

    def url(self, segments: Iterable[str] = ()) -> str:
        """Return the encoded URL below Nextcloud's base URL."""
        return f"{SERVICE}/{encode((*self.root, *segments))}"

    @property
    def scope(self) -> str:
        """Return the tree's path for a SEARCH body, which Nextcloud does not decode."""
        return "/" + "/".join(self.root)

    def locate(self, href: str, *, hosts: Collection[str]) -> Segments | None:
        """Return the segments of an href inside this tree; None when it is outside.

        The only reader of hrefs, in every spelling (RFC 3986 §6.2.2, RFC 4918 §8.3): a path or a full URL of one of
        the `hosts`, with more or fewer characters escaped, with or without a trailing slash. The type of a resource
        comes from its properties alone. The web root before `/remote.php/dav` is set in Nextcloud
        (`overwritewebroot`) and may differ from the configured one, so it is not compared. No request follows an
        href.
        """
        inside = _inside(_path_on(hosts, href))
        if inside is None:
            return None
        segments = _decode(inside)
        depth = len(self.root)
        if segments is None or not same(segments[:depth], self.root):
            return None
        below = segments[depth:]
        # A decoded slash would make one name look like two; only a uid may contain one.
        return None if "%" in inside and any("/" in segment for segment in below) else below


def _path_on(hosts: Collection[str], href: str) -> str:
    """Return the path of an href; empty when it is on another host or has more than a path."""
    if href[:1] == "/" and "?" not in href and "#" not in href:
        if href[1:2] != "/":
            return href
        if href.lstrip("/").startswith(_BEGINNING[1:]):
            # A web root of "/" turns one slash into two (`overwritewebroot`); no host has this name.
            return f"/{href.lstrip('/')}"
    try:
        parts = urlsplit(href)
    except ValueError:
        return ""
    name = (parts.hostname or "").removesuffix(".")
    foreign = parts.netloc and name not in {host.lower().removesuffix(".") for host in hosts}
    return "" if foreign or parts.query or parts.fragment else parts.path


def _inside(path: str) -> str | None:
    """Return what follows `/remote.php/dav/`, also where that is escaped; None without it."""
    _, found, inside = path.partition(_BEGINNING)
    if found or "%" not in path:
        return inside if found else None
    parts = path.split("/")
    plain = [unquote_to_bytes(part) for part in parts]
    for at in range(len(parts) - _SERVICE_PARTS):
        if plain[at : at + _SERVICE_PARTS] == [b"remote.php", b"dav"]:
            return "/".join(parts[at + _SERVICE_PARTS :])
    return None


def _decode(path: str) -> Segments | None:
    """Decode each part of an encoded path once; None when the path is invalid."""
    segments = path.removesuffix("/").split("/")
    if "%" in path:
        try:
            segments = [unquote_to_bytes(part).decode() if "%" in part else part for part in segments]
        except UnicodeDecodeError:
            return None
        # XML cannot contain this character.
        if any("\0" in segment for segment in segments):
            return None
    if "" in segments or "." in segments or ".." in segments:
        return None
    return tuple(segments)


def _prop(properties: Iterable[str]) -> str:
    return f"<d:prop>{''.join(f'<{each}/>' for each in properties)}</d:prop>"


def propfind(properties: Iterable[str]) -> bytes:
    """Return a PROPFIND body for these properties, such as `d:getetag`."""
    return f'<?xml version="1.0"?><d:propfind {DECLARED}>{_prop(properties)}</d:propfind>'.encode()


def proppatch(property_name: str, value: str) -> bytes:
    """Return a PROPPATCH body that sets a property."""
    prop = f"<d:prop><{property_name}>{escape(value, quote=False)}</{property_name}></d:prop>"
    return (
        f'<?xml version="1.0"?><d:propertyupdate {DECLARED}><d:set>{prop}</d:set></d:propertyupdate>'.encode()
    )


def filter_files(properties: Iterable[str], *, tag_id: str) -> bytes:
    """Return a REPORT body that finds files with a tag, with these properties."""
    rules = f"<oc:systemtag>{escape(tag_id, quote=False)}</oc:systemtag>"
    return (
        f'<?xml version="1.0"?><oc:filter-files {DECLARED}>{_prop(properties)}'
        f"<oc:filter-rules>{rules}</oc:filter-rules></oc:filter-files>"
    ).encode()


def multiget(report: str, properties: Iterable[str], hrefs: Iterable[str]) -> bytes:
    """Return a REPORT body that reads these members of a collection (RFC 4791 §7.9, RFC 6352 §8.7)."""
    named = "".join(f"<d:href>{escape(each, quote=False)}</d:href>" for each in hrefs)
    return f'<?xml version="1.0"?><{report} {DECLARED}>{_prop(properties)}{named}</{report}>'.encode()


def filter_comments(*, limit: int, offset: int) -> bytes:
    """Return a REPORT body that reads comments, newest first."""
    return (
        f'<?xml version="1.0"?><oc:filter-comments {DECLARED}>'
        f"<oc:limit>{limit}</oc:limit><oc:offset>{offset}</oc:offset></oc:filter-comments>"
    ).encode()


def like(property_name: str, text: str) -> str:
    r"""Return a condition: the text occurs; `%`, `_` and `\` in it are literal."""
    literal = text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return compare("like", property_name, f"%{literal}%")


def compare(operator: str, property_name: str, value: str) -> str:
    """Return a condition: `eq`, `gte`, `lte`, or `like`, whose wildcards are `%` and `_`."""
    literal = escape(value, quote=False)
    return f"<d:{operator}><d:prop><{property_name}/></d:prop><d:literal>{literal}</d:literal></d:{operator}>"


def search(
    *, scope: str, properties: Iterable[str], conditions: Sequence[str], limit: int, first: int
) -> bytes:
    """Return a SEARCH body: all conditions hold, newest first, `limit` rows from row `first` on."""
    where = conditions[0] if len(conditions) == 1 else f"<d:and>{''.join(conditions)}</d:and>"
    start = f'<s:firstresult xmlns:s="{_SEARCH_NAMESPACE}">{first}</s:firstresult>' if first else ""
    return (
        f'<?xml version="1.0"?><d:searchrequest {DECLARED}><d:basicsearch>'
        f"<d:select>{_prop(properties)}</d:select>"
        f"<d:from><d:scope><d:href>{escape(scope, quote=False)}</d:href><d:depth>infinity</d:depth></d:scope></d:from>"
        f"<d:where>{where}</d:where>"
        "<d:orderby><d:order><d:prop><d:getlastmodified/></d:prop><d:descending/></d:order></d:orderby>"
        f"<d:limit><d:nresults>{limit}</d:nresults>{start}</d:limit>"
        "</d:basicsearch></d:searchrequest>"
    ).encode()
