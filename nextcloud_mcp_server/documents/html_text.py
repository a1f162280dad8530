"""Extracts text from HTML: keeps headings, lists and tables, omits scripts, styles and forms."""

import re
from html.parser import HTMLParser
from typing import BinaryIO, Final

from nextcloud_mcp_server.documents import charset
from nextcloud_mcp_server.documents.flow import Flow
from nextcloud_mcp_server.documents.output import Output

_HIDDEN: Final = frozenset(
    {"script", "style", "head", "template", "noscript", "svg", "math", "select", "iframe"}
)
_BLOCKS: Final = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div",
        "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
        "header", "hr", "html", "li", "main", "nav", "ol", "p", "pre", "section", "summary", "ul",
    }
)  # fmt: skip
_CHARSET: Final = re.compile(
    rb"""charset\s*+=\s*+["']?+\s*+([A-Za-z0-9_.:-]{1,40})|encoding=["']([A-Za-z0-9_.:-]{1,40})"""
)
_SPACE: Final = re.compile(r"[ \t\n\r\f]+")


def read(file: BinaryIO, out: Output) -> None:
    """Write the text of a page."""
    write(decode(file.read()), out)


def write(page: str, out: Output) -> None:
    """Write the text of a decoded page."""
    parser = _Page(out)
    parser.feed(page)
    parser.close()
    parser.finish_all()


def decode(data: bytes) -> str:
    """Decode a page as a browser would: by its byte order mark, its declaration, or detection."""
    found = _CHARSET.search(data[:2048])
    return charset.decode(data, declared=(found[1] or found[2]).decode("ascii") if found else None)


class _Page(HTMLParser):
    """Parses a page, whose elements need not be closed in order, or at all."""

    def __init__(self, out: Output) -> None:
        super().__init__(convert_charrefs=True)
        self._flow = Flow(out)
        self._hidden = ""
        self._depth = 0
        self._prefix = ""
        self._preformatted = False
        self._open = False
        # For each open table, whether a row is open; and for each open row, whether a cell is.
        self._tables: list[bool] = []
        self._rows: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._hidden:
            self._depth += tag == self._hidden
            return
        if tag in _HIDDEN:
            self._hidden, self._depth = tag, 1
            return
        match tag:
            case "br":
                self._add("\n")
            case "img":
                self._add(dict(attrs).get("alt") or "")
            case "table":
                self._close_paragraph()
                self._tables.append(False)
            case "tr":
                self._close_row()
                self._flow.begin_row()
                self._tables[-1:] = [True]
                self._rows.append(False)
            case "td" | "th" if self._tables and self._tables[-1]:
                self._close_cell()
                self._flow.begin_cell()
                self._rows[-1] = True
            case _ if tag in _BLOCKS:
                self._close_paragraph()
                self._prefix = _prefix(tag) or self._prefix
                self._preformatted = self._preformatted or tag == "pre"
            case _:
                pass

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._depth -= tag == self._hidden
            self._hidden = self._hidden if self._depth else ""
            return
        match tag:
            case "td" | "th":
                self._close_cell()
            case "tr":
                self._close_row()
            case "table" if self._tables:
                self._close_row()
                self._tables.pop()
            case _ if tag in _BLOCKS:
                self._close_paragraph()
                self._prefix = ""
                self._preformatted = self._preformatted and tag != "pre"
            case _:
                pass

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._add(data if self._preformatted else _SPACE.sub(" ", data))

    def finish_all(self) -> None:
        """Close what the page left open."""
        while self._tables:
            self._close_row()
            self._tables.pop()
        self._close_paragraph()

    def _add(self, text: str) -> None:
        if not self._open:
            if not text.strip():
                return
            self._flow.begin(self._prefix)
            self._prefix = ""
            self._open = True
            text = text if self._preformatted else text.lstrip()
        self._flow.add(text)

    def _close_paragraph(self) -> None:
        if self._open:
            self._flow.finish()
            self._open = False

    def _close_cell(self) -> None:
        self._close_paragraph()
        if self._tables and self._tables[-1] and self._rows[-1]:
            self._flow.finish_cell()
            self._rows[-1] = False

    def _close_row(self) -> None:
        """Close the row of the innermost table; the cell of an outer table stays open."""
        self._close_paragraph()
        if self._tables and self._tables[-1]:
            self._close_cell()
            self._tables[-1] = False
            self._rows.pop()
            self._flow.finish_row()


def _prefix(tag: str) -> str:
    if tag == "li":
        return "- "
    return "#" * int(tag[1]) + " " if len(tag) == len("h1") and tag[1].isdigit() else ""
