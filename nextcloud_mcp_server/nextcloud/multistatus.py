"""Reads DAV multistatus answers as they arrive, in bounded memory.

No tree is built: the parser calls back for each tag, and one response at a time is held. Document
types are refused, so there are no entities to expand and nothing to load.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

# lxml comes without types: what is used of it is declared below.
from lxml import (  # pyright: ignore[reportMissingTypeStubs]
    etree as _lxml,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
)

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.nextcloud import dav

MAX_BYTES: Final = 33_554_432
#: The deepest real answer (sharees inside prop inside propstat) has seven levels.
MAX_DEPTH: Final = 16
#: Within one response; a file shared with a thousand people stays below.
MAX_ELEMENTS: Final = 20_000
MAX_TEXT: Final = 262_144
#: A tag that goes on for longer is an attack: the parser would hold all of it at once.
MAX_SILENCE: Final = 262_144
_SLICE: Final = 65_536


class _Parser(Protocol):
    def feed(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class _Lxml(Protocol):
    XMLSyntaxError: type[Exception]

    def XMLParser(  # noqa: N802 - lxml's name
        self, *, target: object, resolve_entities: bool, no_network: bool, load_dtd: bool, huge_tree: bool
    ) -> _Parser: ...


_etree = cast("_Lxml", _lxml)

_MULTISTATUS: Final = dav.name("d:multistatus")
_RESPONSE: Final = dav.name("d:response")
_HREF: Final = dav.name("d:href")
_PROPSTAT: Final = dav.name("d:propstat")
_PROP: Final = dav.name("d:prop")
_STATUS: Final = dav.name("d:status")


@dataclass(slots=True)
class Value:
    """One property: its own text, and every element inside it with that element's text."""

    text: str = ""
    inner: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def inner_texts(self, tag: str) -> list[str]:
        """List the texts of the elements of one name."""
        return [text for name, text in self.inner if name == tag]


@dataclass(slots=True)
class DavResponse:
    """One `response` of a multistatus: where, and the properties that were found."""

    href: str = ""
    properties: dict[str, Value] = field(default_factory=dict[str, Value])

    def text(self, qualified: str) -> str:
        """Give a property's text, empty when the server does not have it."""
        value = self.properties.get(dav.name(qualified))
        return value.text.strip() if value else ""

    def has_inner(self, qualified: str, inner: str) -> bool:
        """Tell whether a property contains an element, such as `d:collection`."""
        value = self.properties.get(dav.name(qualified))
        wanted = dav.name(inner)
        return value is not None and any(tag == wanted for tag, _ in value.inner)

    def inner_texts(self, qualified: str, inner: str) -> list[str]:
        """List the texts of one kind of element inside a property."""
        value = self.properties.get(dav.name(qualified))
        return value.inner_texts(dav.name(inner)) if value else []


class _Target:
    """What the parser calls; collects responses until `take` fetches them."""

    def __init__(self) -> None:
        self.calls = 0
        self._path: list[str] = []
        self._texts: list[list[str]] = []
        self._ready: list[DavResponse] = []
        self._response = DavResponse()
        self._propstat: dict[str, Value] = {}
        self._property = Value()
        self._found = True
        self._elements = 0
        self._text_size = 0

    def doctype(self, *_args: str | None) -> None:
        raise errors.ServerFault("Nextcloud's answer holds a document type, so it was not read.")

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        self.calls += 1
        self._elements += 1
        if len(self._path) >= MAX_DEPTH or self._elements > MAX_ELEMENTS:
            raise errors.TooLarge("Nextcloud's answer is deeper or wider than any real one: it was not read.")
        if not self._path and tag != _MULTISTATUS:
            raise errors.NotNextcloud("The answer was XML, but not the kind a Nextcloud gives for files.")
        if len(self._path) == 1 and tag == _RESPONSE:
            self._response, self._elements, self._text_size = DavResponse(), 0, 0
        elif tag == _PROPSTAT and len(self._path) == 2:  # noqa: PLR2004 - below multistatus and response
            self._propstat, self._found = {}, True
        self._path.append(tag)
        self._texts.append([])

    def data(self, text: str) -> None:
        self.calls += 1
        if len(self._path) < 2:  # noqa: PLR2004 - between responses text means nothing
            return
        self._text_size += len(text)
        if self._text_size > MAX_TEXT:
            raise errors.TooLarge("Nextcloud's answer has longer texts than any real one: it was not read.")
        self._texts[-1].append(text)

    def end(self, tag: str) -> None:
        self.calls += 1
        text = "".join(self._texts.pop())
        self._path.pop()
        match self._path:
            case [_]:
                if tag == _RESPONSE:
                    self._ready.append(self._response)
            case [_, _] if tag == _HREF:
                self._response.href = text.strip()
            case [_, _] if tag == _PROPSTAT and self._found:
                self._response.properties.update(self._propstat)
            case [_, _, _] if tag == _STATUS:
                self._found = " 200" in text
            case [_, _, _, parent] if parent == _PROP:
                self._property.text = text
                self._propstat[tag] = self._property
                self._property = Value()
            case [_, _, _, parent, *_] if parent == _PROP:
                self._property.inner.append((tag, text))
            case _:
                pass

    def close(self) -> None:
        """Nothing to hand over at the end: responses were taken as they came."""

    def take(self) -> list[DavResponse]:
        taken, self._ready = self._ready, []
        return taken


async def read(chunks: AsyncIterable[bytes]) -> AsyncGenerator[DavResponse]:
    """Give the responses of a multistatus one by one while its bytes arrive.

    Raises:
        ServerFault: It is not XML, ends early, or holds a document type.
        NotNextcloud: It is XML of another kind.
        TooLarge: It is larger, deeper or wider than any honest answer.
    """
    target = _Target()
    parser = _etree.XMLParser(
        target=target, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    total = silent = 0
    try:
        async for chunk in chunks:
            total += len(chunk)
            if total > MAX_BYTES:
                raise errors.TooLarge("The folder is too large to list: search in it instead.")
            for start in range(0, len(chunk), _SLICE):
                piece = chunk[start : start + _SLICE]
                calls = target.calls
                parser.feed(piece)
                silent = 0 if target.calls > calls else silent + len(piece)
                if silent > MAX_SILENCE:
                    raise errors.TooLarge("Nextcloud's answer holds one endless tag: it was not read.")
                for response in target.take():
                    yield response
        parser.close()
    except _etree.XMLSyntaxError as error:
        raise errors.ServerFault("Nextcloud's answer was not complete, valid XML: try again.") from error
