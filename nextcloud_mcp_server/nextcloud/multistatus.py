"""Reads DAV multistatus answers as they arrive, in bounded memory.

The parser builds one response at a time, which is freed before the next. Document types are
refused, so there are no entities to expand and nothing to load; a response that does not end is
given up, whether it goes on in depth, in width, in a text or in a tag.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

# lxml comes without types: what is used of it is declared below.
from lxml import (  # pyright: ignore[reportMissingTypeStubs]
    etree as _lxml,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
)

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav

MAX_BYTES: Final = 33_554_432
#: The most bytes without the end of a response; a file shared with a thousand people takes a third.
MAX_RESPONSE_BYTES: Final = 262_144
_SLICE: Final = 65_536

_MULTISTATUS: Final = dav.name("d:multistatus")
_RESPONSE: Final = dav.name("d:response")
_HREF: Final = dav.name("d:href")
_PROPSTAT: Final = dav.name("d:propstat")
_PROP: Final = dav.name("d:prop")
_STATUS: Final = dav.name("d:status")


class _DocInfo(Protocol):
    doctype: str


class _Tree(Protocol):
    docinfo: _DocInfo


class _Element(Protocol):
    tag: str
    text: str | None

    def __iter__(self) -> "Iterator[_Element]": ...
    def __len__(self) -> int: ...
    def __delitem__(self, index: int) -> None: ...
    def clear(self) -> None: ...
    def getparent(self) -> "_Element | None": ...
    def getprevious(self) -> "_Element | None": ...
    def getroottree(self) -> _Tree: ...
    def iterdescendants(self) -> "Iterator[_Element]": ...
    def findtext(self, path: str) -> str | None: ...


class _Parser(Protocol):
    def feed(self, data: bytes) -> None: ...
    def close(self) -> _Element: ...
    def read_events(self) -> Iterator[tuple[str, _Element]]: ...


class _Lxml(Protocol):
    XMLSyntaxError: type[Exception]

    def XMLPullParser(self, events: tuple[str, ...], **options: object) -> _Parser: ...  # noqa: N802 - lxml's name


_etree = cast("_Lxml", _lxml)


@dataclass(slots=True)
class DavResponse:
    """One `response` of a multistatus: where, and the properties that were found."""

    href: str = ""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    inner: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])

    def text(self, qualified: str) -> str:
        """Give a property's text, empty when the server does not have it."""
        return self.texts.get(dav.name(qualified), "").strip()

    def has_inner(self, qualified: str, inner: str) -> bool:
        """Tell whether a property contains an element, such as `d:collection`."""
        wanted = dav.name(inner)
        return any(tag == wanted for tag, _ in self.inner.get(dav.name(qualified), ()))

    def inner_texts(self, qualified: str, inner: str) -> list[str]:
        """List the texts of one kind of element inside a property."""
        wanted = dav.name(inner)
        return [text for tag, text in self.inner.get(dav.name(qualified), ()) if tag == wanted]


async def read(chunks: AsyncIterable[bytes]) -> AsyncGenerator[list[DavResponse]]:
    """Give the responses of a multistatus some at a time while its bytes arrive.

    Raises:
        ServerFault: It is not XML, ends early, or holds a document type.
        NotNextcloud: It is XML of another kind.
        TooLarge: It, or one response of it, is larger than any honest one.
    """
    parser = _etree.XMLPullParser(
        ("end",),
        tag=_RESPONSE,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    total = unfinished = 0
    try:
        async for chunk in chunks:
            total += len(chunk)
            if total > MAX_BYTES:
                raise errors.TooLarge("The folder is too large to list: search in it instead.")
            for start in range(0, len(chunk), _SLICE):
                piece = chunk[start : start + _SLICE]
                unfinished += len(piece)
                parser.feed(piece)
                if responses := list(_finished(parser)):
                    unfinished = 0
                    yield responses
                if unfinished > MAX_RESPONSE_BYTES:
                    raise errors.TooLarge("One entry of Nextcloud's answer does not end: it was not read.")
        _check_root(parser.close())
    except _etree.XMLSyntaxError as error:
        raise errors.ServerFault("Nextcloud's answer was not complete, valid XML: try again.") from error


def _finished(parser: _Parser) -> Iterator[DavResponse]:
    checked = False
    for _, element in parser.read_events():
        parent = element.getparent()
        if parent is not None and parent.getparent() is None:
            if not checked:
                _check_root(parent)
                checked = True
            yield _response(element)
            # What was read is freed, with anything foreign that came before it.
            element.clear()
            while element.getprevious() is not None:
                del parent[0]


def _check_root(root: _Element) -> None:
    if root.getroottree().docinfo.doctype:
        raise errors.ServerFault("Nextcloud's answer holds a document type, so it was not read.")
    if root.tag != _MULTISTATUS:
        raise errors.NotNextcloud("The answer was XML, but not the kind a Nextcloud gives for files.")


def _response(element: _Element) -> DavResponse:
    found = DavResponse()
    for child in element:
        if child.tag == _HREF:
            found.href = (child.text or "").strip()
        elif child.tag == _PROPSTAT and " 200" in (child.findtext(_STATUS) or " 200"):
            for prop in child:
                if prop.tag == _PROP:
                    _add_properties(prop, found)
    return found


def _add_properties(prop: _Element, found: DavResponse) -> None:
    for each in prop:
        if each.text:
            found.texts[each.tag] = each.text
        if len(each):
            found.inner[each.tag] = [(inside.tag, inside.text or "") for inside in each.iterdescendants()]
