"""Parses DAV multistatus responses as they arrive, in bounded memory.

The parser's tree is emptied after every piece, so it never holds more than a few `response` elements. Document types
are refused, so there are no entities to expand and nothing to load. A `response` element that does not end within the
limit is refused, whether it grows in depth, in width, in a text or in a tag.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple, Protocol, cast

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav, pace

MAX_BYTES: Final = 33_554_432
#: The maximum bytes of one `response` element; a file shared with a thousand users takes a third of this.
MAX_RESPONSE_BYTES: Final = 262_144
#: Its tags: each takes a hundred bytes or more until the element ends.
_MOST_TAGS: Final = 65_536
_SLICE: Final = 65_536
#: So much of a longer document is parsed at once, in less than a millisecond; then other requests have their turn.
_PIECE: Final = 8_192
#: How much of the end of the document is kept, to find an error document that follows it.
_TAIL_BYTES: Final = 4_096

_MULTISTATUS: Final = dav.name("d:multistatus")
_RESPONSE: Final = dav.name("d:response")
_HREF: Final = dav.name("d:href")
_PROPSTAT: Final = dav.name("d:propstat")
_PROP: Final = dav.name("d:prop")
_STATUS: Final = dav.name("d:status")
_FORBIDDEN: Final = re.compile(r" 40[13]\b")
#: Statuses of properties that may exist but are not shown (RFC 4918 §9.1.2).
_REFUSED: Final = re.compile(r" (?:40[13]|4(?:23|29)|5\d\d)\b")
#: The minimum number of elements in a propstat.
_PROP_AND_STATUS: Final = 2


_HARDENED: Final = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}


class _DocInfo(Protocol):
    doctype: str


class _Tree(Protocol):
    docinfo: _DocInfo

    def getroot(self) -> "_Element": ...


class _Element(Protocol):
    tag: str
    text: str | None

    def __iter__(self) -> "Iterator[_Element]": ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: slice) -> "list[_Element]": ...
    def __delitem__(self, index: slice) -> None: ...
    def getroottree(self) -> _Tree: ...
    def iterdescendants(self) -> "Iterator[_Element]": ...
    def get(self, key: str) -> str | None: ...


class _Parser(Protocol):
    def feed(self, data: bytes) -> None: ...
    def close(self) -> _Element: ...
    def read_events(self) -> Iterator[tuple[str, _Element]]: ...


class _Lxml(Protocol):
    XMLSyntaxError: type[Exception]

    def XMLParser(self, **options: object) -> object: ...  # noqa: N802 - lxml's name
    def fromstring(self, text: bytes, parser: object) -> _Element: ...
    def XMLPullParser(self, events: tuple[str, ...], **options: object) -> _Parser: ...  # noqa: N802 - lxml's name


@cache
def _etree() -> _Lxml:
    """Load the parser, which is large and not needed at start; it has no types, hence the Protocols above."""
    from lxml import (  # noqa: PLC0415 - see above  # pyright: ignore[reportMissingTypeStubs]
        etree,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    )

    return cast("_Lxml", etree)


class DavResponse(NamedTuple):
    """One `response` of a multistatus: its href, and the properties found, by their full names."""

    href: str
    texts: dict[str, str]
    inner: dict[str, list[tuple[str, str]]]
    #: The status line, such as `HTTP/1.1 403 Forbidden`, where all properties were refused.
    refusal: str = ""

    def text(self, qualified: str) -> str:
        """Return the text of a property, "" where the server does not have it."""
        return self.texts.get(dav.name(qualified), "")

    def has_inner(self, qualified: str, inner: str) -> bool:
        """Tell whether a property contains an element, such as `d:collection`."""
        wanted = dav.name(inner)
        return any(tag == wanted for tag, _ in self.inner.get(dav.name(qualified), ()))

    @property
    def is_writable(self) -> bool:
        """Whether the user may write to what is in this calendar or address book."""
        writing = any(
            self.has_inner("d:current-user-privilege-set", right)
            for right in ("d:write", "d:write-content", "d:all")
        )
        return writing and self.text("oc:read-only") != "1"

    def inner_texts(self, qualified: str, inner: str) -> list[str]:
        """Return the texts of all elements of one kind inside a property."""
        wanted = dav.name(inner)
        return [text for tag, text in self.inner.get(dav.name(qualified), ()) if tag == wanted]


#: Returns the error at the end of a response that is not valid XML; None without one.
Refused = Callable[[bytes], errors.NextcloudError | None]


def _nothing(_: bytes) -> None:
    """Return no error."""


async def read(  # noqa: C901 - one loop, and what may end it
    chunks: AsyncIterable[bytes], *, longest: int = MAX_RESPONSE_BYTES, refused: Refused = _nothing
) -> AsyncGenerator[list[DavResponse]]:
    """Yield the `response` elements of a multistatus in batches while its bytes arrive.

    `longest` is the maximum bytes of one element. A server that streams its response sends the status 207 before it
    knows whether the resource exists, and then writes the error as a second document after the first
    (nextcloud/server#63415); `refused` parses that.

    Raises:
      NextcloudError: What `refused` returns.
      ServerFault: It is not XML, ends early, or has a document type.
      NotNextcloud: It is XML of another kind.
      Forbidden: It lists resources, and all properties of all of them are refused.
      TooLarge: The response, or one of its elements, exceeds the limit.
    """
    growing: _Growing | None = None
    beginning = tail = b""
    total = unfinished = tags = 0
    readable = _ReadableCheck()
    try:
        async for received in chunks:
            chunk = received
            tail = (tail + received)[-_TAIL_BYTES:]
            if growing is None:
                chunk = beginning = beginning + received
                if len(chunk) <= _SLICE:
                    continue
                growing = _Growing()
            total += len(chunk)
            if total > MAX_BYTES:
                raise errors.TooLarge("The folder is too large to list: search in it instead.")
            for start in range(0, len(chunk), _PIECE):
                await pace.give_way()
                piece = chunk[start : start + _PIECE]
                unfinished += len(piece)
                tags += piece.count(b"<")
                if responses := readable.record(growing.feed(piece)):
                    unfinished = tags = 0
                    yield responses
                if unfinished > longest or tags > _MOST_TAGS:
                    raise errors.TooLarge("One entry of Nextcloud's answer does not end: it was not read.")
        if responses := readable.record(_whole(beginning) if growing is None else growing.close()):
            yield responses
        readable.refuse_unreadable()
    except _etree().XMLSyntaxError as error:
        if (found := refused(await _end(chunks, tail))) is not None:
            raise found from None
        raise errors.ServerFault("Nextcloud's answer was not complete, valid XML: try again.") from error


class _ReadableCheck:
    """Checks that some property was readable: a list of refused resources must not look empty."""

    def __init__(self) -> None:
        self._all_refused = True
        self._refusal = ""

    def record(self, responses: list[DavResponse]) -> list[DavResponse]:
        """Record responses as they arrive and return them."""
        if self._all_refused and responses:
            self._all_refused = all(each.refusal for each in responses)
            self._refusal = responses[-1].refusal
        return responses

    def refuse_unreadable(self) -> None:
        """Raise Forbidden when every response was refused."""
        if self._all_refused and self._refusal:
            if _FORBIDDEN.search(self._refusal):
                raise errors.Forbidden(
                    "Nextcloud lists this and refuses to tell anything about it: it may be read by others alone."
                )
            raise errors.ServerFault("Nextcloud lists this and failed to tell anything about it: try again.")


async def _end(chunks: AsyncIterable[bytes], tail: bytes) -> bytes:
    """Read what follows the point where the parser failed, possibly a second document."""
    rest = 0
    async for received in chunks:
        tail, rest = (tail + received)[-_TAIL_BYTES:], rest + len(received)
        if rest > _SLICE:
            break
    return tail


def _whole(document: bytes) -> list[DavResponse]:
    """Parse a short document at once, which takes a third less time."""
    etree = _etree()
    root = etree.fromstring(document, etree.XMLParser(**_HARDENED))
    _check_root(root)
    return _taken(root, slice(None))


class _Growing:
    """The document while it grows; completed elements are removed after every piece.

    The parser reports only the start of the root, because each event costs as much as parsing an element. An element
    is complete once the next one has begun.
    """

    def __init__(self) -> None:
        self._parser = _etree().XMLPullParser(("start",), tag=_MULTISTATUS, **_HARDENED)
        self._root: _Element | None = None

    def feed(self, piece: bytes) -> list[DavResponse]:
        """Parse a piece and return the completed responses."""
        self._parser.feed(piece)
        for _, element in self._parser.read_events():
            if self._root is None:
                _check_root(element.getroottree().getroot())
                self._root = element
        return [] if self._root is None else _taken(self._root, slice(None, -1))

    def close(self) -> list[DavResponse]:
        """Check that the document ended, and return the remaining responses."""
        root = self._parser.close()
        _check_root(root)
        return _taken(root, slice(None))


def _taken(root: _Element, part: slice) -> list[DavResponse]:
    """Parse these children and free them, including elements of other kinds between them."""
    responses = [_response(child) for child in root[part] if child.tag == _RESPONSE]
    del root[part]
    return responses


def _check_root(root: _Element) -> None:
    if root.getroottree().docinfo.doctype:
        raise errors.ServerFault("Nextcloud's answer holds a document type, so it was not read.")
    if root.tag != _MULTISTATUS:
        raise errors.NotNextcloud("The answer was XML, but not the kind a Nextcloud gives for files.")


def _response(element: _Element) -> DavResponse:
    href = ""
    texts: dict[str, str] = {}
    inner: dict[str, list[tuple[str, str]]] = {}
    for child in element:
        if parts := child[:]:
            for each in _found(child, parts):
                # A text is exact: a name may begin or end with a space. White space between elements is ignored.
                if (text := each.text) and not text.isspace():
                    texts[each.tag] = text
                elif len(each):
                    # `<cal:comp name="VTODO"/>` has its content in the attribute (RFC 4791 §5.2.3).
                    inner[each.tag] = [
                        (inside.tag, inside.text or inside.get("name") or "")
                        for inside in each.iterdescendants()
                    ]
                elif text:
                    texts[each.tag] = text
        elif child.tag == _HREF:
            href = (child.text or "").strip()
    return DavResponse(href, texts, inner, "" if texts or inner else _refusal(element))


def _refusal(response: _Element) -> str:
    """Return the status of properties that were all refused; 404 is not a refusal."""
    lines = [
        part.text or ""
        for propstat in response
        if propstat.tag == _PROPSTAT
        for part in propstat
        if part.tag == _STATUS
    ]
    refused = [line for line in lines if _REFUSED.search(line)]
    return refused[0] if refused and not any(" 200" in line for line in lines) else ""


def _found(propstat: _Element, parts: list[_Element]) -> Iterable[_Element]:
    """Return the properties that the server has; the others have another status."""
    if len(parts) == _PROP_AND_STATUS and (status := parts[1].text or "").startswith("HTTP/"):
        # In Nextcloud's order (RFC 4918 §14.22); checking the tags of thousands of elements would slow a long list.
        return parts[0] if " 200" in status else ()
    prop: Iterable[_Element] = ()
    for part in parts if propstat.tag == _PROPSTAT else ():
        tag = part.tag
        if tag == _PROP:
            prop = part
        elif tag == _STATUS and " 200" not in (part.text or ""):
            return ()
    return prop
