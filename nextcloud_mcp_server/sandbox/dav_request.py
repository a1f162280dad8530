"""Request bodies in XML, as a small typed tree."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from lxml import (  # pyright: ignore[reportMissingTypeStubs]
    etree as _lxml,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
)

from nextcloud_mcp_server.sandbox.dav_xml import DAV, bad_request

# lxml ships no types, so this module is the one place that touches it.
_etree = cast("Any", _lxml)


@dataclass(frozen=True, slots=True)
class Element:
    """One element: its name in Clark notation, its text, what is inside, and its attributes."""

    name: str
    text: str
    children: tuple["Element", ...]
    attributes: dict[str, str] = field(default_factory=dict[str, str])

    def find(self, *names: str, uri: str = DAV) -> "Element | None":
        """Follow names down, each the first match; None when one is missing."""
        found: Element | None = self
        for name in names:
            if found is None:
                return None
            found = next(found.every(name, uri=uri), None)
        return found

    def every(self, name: str, *, uri: str = DAV) -> Iterator["Element"]:
        """Yield the children of this name."""
        return (child for child in self.children if child.name == f"{{{uri}}}{name}")


def parse_xml(body: bytes) -> Element:
    """Parse a request body, with no entities and no network.

    Raises:
        DavFault: 400 with the parser's complaint.
    """
    parser = _etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    try:
        return _typed(_etree.fromstring(body, parser))
    except _etree.XMLSyntaxError as error:
        what = str(error.msg).partition(" line ")[0]
        line, column = error.position
        raise bad_request(f"{what}\n on line {line}, column {column}") from error


def parse_wanted(body: bytes) -> list[str] | None:
    """Read which properties a PROPFIND or REPORT asks for; None: the usual ones."""
    if not body.strip():
        return None
    prop = parse_xml(body).find("prop")
    return None if prop is None else [child.name for child in prop.children]


def _typed(raw: Any) -> Element:  # noqa: ANN401 - an element of lxml, which has no types
    return Element(str(raw.tag), str(raw.text or ""), tuple(_typed(child) for child in raw), dict(raw.attrib))
