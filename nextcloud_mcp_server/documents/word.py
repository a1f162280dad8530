"""Text out of Word documents (.docx): headings, lists, tables, notes and comments."""

import re
from typing import BinaryIO, Final

from nextcloud_mcp_server.documents.archive import Archive, Listener
from nextcloud_mcp_server.documents.flow import Flow
from nextcloud_mcp_server.documents.output import Output

_HEADING: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)
_SEPARATORS: Final = frozenset({"separator", "continuationSeparator", "continuationNotice"})
_SIGNS: Final = {"br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_NOTES: Final = (("/footnotes", "Footnotes"), ("/endnotes", "Endnotes"), ("/comments", "Comments"))


def read(file: BinaryIO, out: Output) -> None:
    """Write the text of the document, then its notes and comments.

    Raises:
        Refused: It cannot be read.
    """
    archive = Archive(file)
    main = archive.relations("").get("/officeDocument", "word/document.xml")
    parts = archive.relations(main)
    styles = _Styles()
    if parts.get("/styles") in archive.names:
        archive.xml(parts["/styles"], styles)
    archive.xml(main, _Text(out, styles.headings))
    for kind, title in _NOTES:
        if parts.get(kind) in archive.names:
            archive.xml(parts[kind], _Text(out, styles.headings, title))


class _Styles(Listener):
    """Finds the styles of headings, whose ids are words of the writer's language."""

    def __init__(self) -> None:
        self.headings: dict[str, int] = {}
        self._style = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "style":
            self._style = attributes.get("styleId", "")
        elif name == "name" and (found := _HEADING.fullmatch(attributes.get("val", ""))):
            self.headings[self._style] = int(found[1])


class _Text(Flow):
    """Follows the body of a document, or its notes. Deleted text has elements of its own, and stays out."""

    def __init__(self, out: Output, headings: dict[str, int], title: str = "") -> None:
        super().__init__(out)
        self._headings = headings
        self._title = title
        self._mark = ""
        self._shown = 0
        self._hidden = 0
        self._inside: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._inside.append(name)
        # What a text frame holds stands there twice: once more for readers that know no such frames.
        # And the lines that separate notes from the page are notes of a type.
        if name == "Fallback" or attributes.get("type") in _SEPARATORS or self._hidden:
            self._hidden += 1
            return
        match name:
            case "p":
                self.begin(self._mark)
                self._mark = ""
            case "t":
                self._shown += 1
            case "tr":
                self.begin_row()
            case "tc":
                self.begin_cell()
            case "footnote" | "endnote" | "comment":
                self._note(attributes)
            case _:
                self._within_paragraph(name, attributes)

    def _within_paragraph(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "pStyle" if (level := self._headings.get(attributes.get("val", ""))) is not None:
                self.mark("#" * level + " ")
            case "numPr":
                self.mark("- ")
            # Paragraphs also name the places of their tabs, in `tabs`.
            case "tab" if "tabs" not in self._inside:
                self.add("\t")
            case "footnoteReference" | "endnoteReference":
                self.add(f"[{attributes.get('id', '')}]")
            case _:
                self.add(_SIGNS.get(name, ""))

    def _note(self, attributes: dict[str, str]) -> None:
        if self._title:
            self.out.write(f"\n[{self._title}]")
            self._title = ""
        self._mark = f"[{attributes.get('author') or attributes.get('id', '')}] "

    def end(self, name: str) -> None:
        self._inside.pop()
        if self._hidden:
            self._hidden -= 1
            return
        match name:
            case "p":
                self.finish()
            case "t":
                self._shown -= 1
            case "tc":
                self.finish_cell()
            case "tr":
                self.finish_row()
            case _:
                pass

    def text(self, text: str) -> None:
        if self._shown and not self._hidden:
            self.add(text)
