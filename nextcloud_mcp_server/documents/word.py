"""Extracts text from Word documents (.docx), with tables, notes, comments, headers and footers."""

import re
from typing import BinaryIO, Final

from nextcloud_mcp_server.documents.archive import Archive, Listener
from nextcloud_mcp_server.documents.flow import Flow
from nextcloud_mcp_server.documents.output import Output
from nextcloud_mcp_server.documents.page_headers import PageHeaders

_HEADING: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)
_SEPARATORS: Final = frozenset({"separator", "continuationSeparator", "continuationNotice"})
#: Deleted text; text at the place that it was moved from; and the alternative content of a text frame, which repeats
#: the frame for programs that do not support it.
_GONE: Final = frozenset({"del", "moveFrom", "Fallback"})
_NO: Final = frozenset({"0", "false", "off"})
#: Elements in which a last paragraph may end.
_CONTAINERS: Final = frozenset({"body", "tc", "txbxContent", "footnote", "endnote", "comment", "hdr", "ftr"})
_SIGNS: Final = {"br": "\n", "cr": "\n", "noBreakHyphen": "-"}
#: Symbols of fonts that have no letters at these positions (ECMA-376, part 1, 17.3.3.30), in Unicode.
_SYMBOLS: Final = {
    "wingdings": {
        0x6C: "●", 0x6E: "■", 0x6F: "☐", 0xA7: "▪", 0xA8: "☐", 0xD8: "➢", 0xE0: "→",
        0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
    },
    "symbol": {
        0x44: "Δ", 0x57: "Ω", 0x61: "\u03b1", 0x62: "β", 0x64: "δ", 0x67: "\u03b3", 0x6C: "λ", 0x6D: "μ",
        0x70: "π", 0x73: "\u03c3", 0xA3: "≤", 0xA5: "∞", 0xAE: "→", 0xB0: "°", 0xB1: "±", 0xB3: "≥", 0xB4: "\u00d7",
        0xB7: "•", 0xB9: "≠", 0xBB: "≈",
    },
}  # fmt: skip
_NOTES: Final = (("/footnotes", "Footnotes"), ("/endnotes", "Endnotes"), ("/comments", "Comments"))
_PAGE_HEADERS: Final = (("/header", "Header"), ("/footer", "Footer"))


def read(file: BinaryIO, out: Output) -> None:
    """Write the text of a document, its notes and comments, and the headers and footers of its pages.

    Raises:
      Refused: It cannot be read.
    """
    archive = Archive(file)
    main = archive.relations("").get("/officeDocument", "word/document.xml")
    parts = archive.relations(main)
    styles = _Styles()
    if parts.get("/styles") in archive.names:
        archive.xml(parts["/styles"], styles)
    archive.xml(main, _Text(out, styles))
    for kind, title in _NOTES:
        if parts.get(kind) in archive.names:
            archive.xml(parts[kind], _Text(out, styles, title))
    headers = PageHeaders(out)
    for kind, title in _PAGE_HEADERS:
        for part in parts.every(kind):
            if part in archive:
                archive.xml(part, _Text(headers.begin(), styles))
                headers.finish(title)


class _Styles(Listener):
    """Finds the styles of headings, whose ids depend on the language, and those that hide text."""

    def __init__(self) -> None:
        self.headings: dict[str, int] = {}
        self.hidden: set[str] = set()
        self._style = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "style":
            self._style = attributes.get("styleId", "")
        elif name == "name" and (found := _HEADING.fullmatch(attributes.get("val", ""))):
            self.headings[self._style] = int(found[1])
        elif name == "vanish" and attributes.get("val") not in _NO:
            self.hidden.add(self._style)


class _Text(Flow):
    """Parses the body of a document, or its notes, with insertions and without deletions.

    Text that is formatted as hidden is marked as such.
    """

    def __init__(self, out: Output, styles: _Styles, title: str = "") -> None:
        super().__init__(out)
        self._styles = styles
        self._title = title
        self._mark = ""
        self._shown = 0
        self._gone = 0
        self._inside: list[str] = []
        # For each open run: whether it is hidden, and whether that was written.
        self._runs: list[bool] = []
        self._said_hidden = False
        self._paragraph_hidden = False
        # Whether the paragraph mark was deleted, so that the next paragraph continues this one.
        self._joined = False
        self._going_on = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._inside.append(name)
        if name in _GONE and self._inside[-3:-1] == ["pPr", "rPr"]:
            self._joined = True
        # The lines that separate notes from the page are notes with a type.
        if name in _GONE or attributes.get("type") in _SEPARATORS or self._gone:
            self._gone += 1
            return
        match name:
            case "p":
                self._begin()
            case "r":
                self._runs.append(self._paragraph_hidden)
            case "t":
                self._shown += 1
            case "tbl":
                self._end_joined()
            case "tr":
                self.begin_row()
            case "tc":
                self.begin_cell()
            case "footnote" | "endnote" | "comment":
                self._note(attributes)
            case _:
                self._within_paragraph(name, attributes)

    def _within_paragraph(self, name: str, attributes: dict[str, str]) -> None:
        value = attributes.get("val", "")
        match name:
            case "pStyle":
                self._paragraph_hidden = value in self._styles.hidden
                if (level := self._styles.headings.get(value)) is not None:
                    self.mark("#" * level + " ")
            case "rStyle" | "vanish" if self._inside[-3:-1] == ["r", "rPr"] and self._runs:
                hidden = value in self._styles.hidden if name == "rStyle" else value not in _NO
                self._runs[-1] = hidden or (name == "rStyle" and self._runs[-1])
            case "numPr":
                self.mark("- ")
            # Paragraphs also list their tab stops, in `tabs`.
            case "tab" if "tabs" not in self._inside:
                self.add("\t")
            case "footnoteReference" | "endnoteReference":
                self.add(f"[{attributes.get('id', '')}]")
            case "sym":
                self._show(_symbol(attributes))
            case _:
                self.add(_SIGNS.get(name, ""))

    def _begin(self) -> None:
        self._paragraph_hidden = False
        if self._going_on:
            self._going_on = False
            self.mark(self._mark)
        else:
            self.begin(self._mark)
        self._mark = ""

    def _end(self) -> None:
        self._say_hidden(hidden=False)
        if self._joined:
            self._joined, self._going_on = False, True
        else:
            self.finish()

    def _end_joined(self) -> None:
        """End a paragraph whose mark was deleted but that has no next one."""
        if self._going_on:
            self._going_on = False
            self.finish()

    def _say_hidden(self, *, hidden: bool) -> None:
        if hidden != self._said_hidden:
            self.add("[hidden: " if hidden else "]")
            self._said_hidden = hidden

    def _note(self, attributes: dict[str, str]) -> None:
        if self._title:
            self.out.write(f"\n[{self._title}]")
            self._title = ""
        self._mark = f"[{attributes.get('author') or attributes.get('id', '')}] "

    def end(self, name: str) -> None:
        self._inside.pop()
        if self._gone:
            self._gone -= 1
            return
        if name in _CONTAINERS:
            self._end_joined()
        match name:
            case "p":
                self._end()
            case "r" if self._runs:
                self._runs.pop()
            case "t":
                self._shown -= 1
            case "tc":
                self.finish_cell()
            case "tr":
                self.finish_row()
            case _:
                pass

    def text(self, text: str) -> None:
        if self._shown and not self._gone:
            self._show(text)

    def _show(self, text: str) -> None:
        self._say_hidden(hidden=bool(self._runs) and self._runs[-1])
        self.add(text)


def _symbol(attributes: dict[str, str]) -> str:
    """Return a symbol of a font, such as a ticked box; for an unknown one, a mark."""
    try:
        # Most programs write these positions in Unicode's private use area, from F000 on.
        place = int(attributes.get("char", ""), 16) & 0xFF
    except ValueError:
        return "[symbol]"
    return _SYMBOLS.get(attributes.get("font", "").lower(), {}).get(place, "[symbol]")
