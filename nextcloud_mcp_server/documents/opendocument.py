"""Extracts text from OpenDocument files: texts (.odt), spreadsheets (.ods), presentations (.odp)."""

import re
from typing import BinaryIO, Final

from nextcloud_mcp_server.documents.archive import Archive, Listener
from nextcloud_mcp_server.documents.flow import Flow
from nextcloud_mcp_server.documents.hidden_cells import HiddenCells
from nextcloud_mcp_server.documents.output import Output, Refused
from nextcloud_mcp_server.documents.page_headers import PageHeaders

#: The maximum number of equal cells written per row; the empty rest of a row is stored as thousands of cells.
MAX_REPEATED: Final = 100
MAX_SPACES: Final = 100
#: More rows or columns than any program supports.
MAX_CELLS: Final = 100_000_000

_CONTENT: Final = "content.xml"
_STYLES: Final = "styles.xml"
_MANIFEST: Final = "META-INF/manifest.xml"
#: Deleted text that is kept, and elements for layout only.
_LEFT_OUT: Final = frozenset({"tracked-changes", "forms", "shapes", "dde-source"})
#: Elements before the text of a comment, besides its author; elsewhere they are fields that belong to the text.
_ABOUT_COMMENT: Final = frozenset({"date", "date-string", "creator-initials"})
#: Attributes with the result of a formula.
_VALUES: Final = ("value-type", "value", "string-value", "date-value", "time-value", "boolean-value")
_REFERENCE: Final = re.compile(r"\[\.?([^\[\]]*)\]")
#: Rows and columns that are hidden or collapsed, and those that a filter hides (ODF 1.3, part 3, 19.749).
_UNSEEN: Final = frozenset({"collapse", "filter"})
_SIGNS: Final = {"tab": "\t", "line-break": "\n"}
#: Left and first pages have elements of their own.
_PAGE_HEADERS: Final = {
    f"{kind}{pages}": kind.title() for kind in ("header", "footer") for pages in ("", "-left", "-first")
}
_PREFIXES: Final = {"list-item": "- ", "note-body": "[note] ", "annotation": "[comment] ", "notes": "Notes: "}


def read(file: BinaryIO, out: Output) -> None:
    """Write the text of a document, the rows of a spreadsheet as lines with tabs.

    Of a text document, also the headers and footers of its pages.

    Raises:
      Refused: It cannot be read.
    """
    archive = Archive(file)
    manifest = _Manifest()
    if _MANIFEST in archive:
        archive.xml(_MANIFEST, manifest)
    if manifest.locked:
        raise Refused("password")
    content = _Text(out)
    archive.xml(_CONTENT, content)
    # In spreadsheets and presentations these are mostly defaults of the program: "Page 1".
    if content.is_text and _STYLES in archive:
        archive.xml(_STYLES, _PageHeaders(out))


class _Manifest(Listener):
    """Tells whether a password is needed: then the zip members are encrypted."""

    locked = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        del attributes
        self.locked = self.locked or name == "encryption-data"


class _Text(Flow):
    """Parses the content of any of these documents."""

    def __init__(self, out: Output) -> None:
        super().__init__(out)
        #: Whether it is a text document, not a spreadsheet or presentation.
        self.is_text = False
        self._last = ""
        self._hidden = 0
        self._prefix = ""
        self._comments = 0
        self._repeated: list[int] = []
        self._pages = 0
        self._spreadsheet = False
        self._style = ""
        self._hiding: set[str] = set()
        # For each open paragraph or part of one: whether it is hidden.
        self._parts: list[bool] = []
        # For each open section: whether it is hidden, with everything in it.
        self._sections: list[bool] = []
        self._formulas: list[str] = []
        self._author: list[str] | None = None
        self._hidden_cells = HiddenCells()
        # The columns and rows of the sheet read so far.
        self._columns_passed = self._rows_passed = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in _LEFT_OUT or self._hidden or (self._comments and name in _ABOUT_COMMENT):
            self._hidden += 1
            return
        self._author = [] if self._comments and name == "creator" else None
        self._prefix = _PREFIXES.get(name, self._prefix)
        self._comments += name == "annotation"
        self._spreadsheet = self._spreadsheet or name == "spreadsheet"
        # Number formats contain elements of this name as well.
        self.is_text = self.is_text or (name == "text" and self._last == "body")
        self._last = name
        match name:
            case "style" | "text-properties" | "table-properties" | "section":
                self._learn(name, attributes)
            case "table" if self._spreadsheet:
                self._hidden_cells, self._columns_passed, self._rows_passed = HiddenCells(), 0, 0
                hidden = " (hidden)" if attributes.get("style-name") in self._hiding else ""
                self.out.write(f"[Sheet: {attributes.get('name', '')}{hidden}]")
            case "page":
                self._pages += 1
                self.out.write(f"[Slide {self._pages}]")
            case "p" | "h":
                level = _count(attributes.get("outline-level"), 9) if name == "h" else 0
                self.begin("#" * level + " " if level else self._prefix)
                self._prefix = ""
                self._hide(attributes, hidden=any(self._sections))
            case "span" | "hidden-text" | "hidden-paragraph":
                self._hide(attributes, hidden=name != "span")
            case "table-row" | "table-column":
                self._pass_cells(name, attributes)
            case "table-cell" | "covered-table-cell":
                self._cell(attributes)
            case "s":
                self.add(" " * (_count(attributes.get("c"), MAX_SPACES) or 1))
            case _:
                self.add(_SIGNS.get(name, ""))

    def _learn(self, name: str, attributes: dict[str, str]) -> None:
        """Record the styles that hide text or sheets.

        `text:display` hides a text, `table:display` a sheet (ODF 1.3, part 3, chapter 20). A section has its own
        attribute.
        """
        if name == "section":
            self._sections.append(attributes.get("display") == "none")
        elif name == "style":
            self._style = attributes.get("name", "")
        elif attributes.get("display") in {"none", "false"}:
            self._hiding.add(self._style)

    def _pass_cells(self, name: str, attributes: dict[str, str]) -> None:
        """Begin a row, or read a column's description; these precede all rows."""
        hidden = attributes.get("visibility") in _UNSEEN
        if name == "table-column":
            first = self._columns_passed + 1
            self._columns_passed += _count(attributes.get("number-columns-repeated"), MAX_CELLS) or 1
            if hidden:
                self._hidden_cells.add_columns(first, self._columns_passed)
            return
        first = self._rows_passed + 1
        self._rows_passed += _count(attributes.get("number-rows-repeated"), MAX_CELLS) or 1
        if hidden:
            self._hidden_cells.add_rows(first, self._rows_passed)
        self.begin_row()

    def _cell(self, attributes: dict[str, str]) -> None:
        self._repeated.append(_count(attributes.get("number-columns-repeated"), MAX_REPEATED) or 1)
        self._formulas.append("" if _has_value(attributes) else _formula(attributes))
        self.begin_cell()

    def _hide(self, attributes: dict[str, str], *, hidden: bool = False) -> None:
        """Write the mark before text that is formatted as hidden."""
        hidden = hidden or attributes.get("style-name") in self._hiding
        self._parts.append(hidden)
        if hidden:
            # A hidden text may be an attribute, and its visible content empty.
            self.add(f"[hidden: {attributes.get('string-value', '')}")

    def _end_hidden(self) -> None:
        if self._parts and self._parts.pop():
            self.add("]")

    def end(self, name: str) -> None:
        if self._author is not None and name == "creator":
            self._prefix = f"[comment by {''.join(self._author)}] "
            self._author = None
            return
        if self._hidden:
            self._hidden -= 1
            return
        self._comments -= name == "annotation"
        match name:
            case "p" | "h":
                self._end_hidden()
                self.finish()
            case "span" | "hidden-text" | "hidden-paragraph":
                self._end_hidden()
            case "table-cell" | "covered-table-cell":
                if formula := self._formulas.pop():
                    self.begin()
                    self.add(formula)
                    self.finish()
                self.finish_cell(self._repeated.pop())
            case "table-row":
                self.finish_row()
            case "section":
                self._sections.pop()
            case "page" | "table" if name == "page" or self._spreadsheet:
                self._finish_part()
            case _:
                pass

    def _finish_part(self) -> None:
        if line := self._hidden_cells.line():
            self.out.write(line)
        self.out.write("")

    def text(self, text: str) -> None:
        if self._author is not None:
            self._author.append(text)
        elif not self._hidden:
            self.add(" ".join(text.split("\n")))


class _PageHeaders(_Text):
    """Parses the styles of a text document for page headers and footers (ODF 1.3, part 3, 16.10)."""

    def __init__(self, out: Output) -> None:
        # Other text among the styles is not text of the document.
        super().__init__(Output(len, tell=out.tell))
        self._headers = PageHeaders(out)
        self._elsewhere = self.out

    def start(self, name: str, attributes: dict[str, str]) -> None:
        # One that is switched off keeps its text.
        if name in _PAGE_HEADERS and attributes.get("display") != "false":
            self.out = self._headers.begin()
        super().start(name, attributes)

    def end(self, name: str) -> None:
        super().end(name)
        if name in _PAGE_HEADERS and self.out is not self._elsewhere:
            self.out = self._elsewhere
            self._headers.finish(_PAGE_HEADERS[name])


def _count(text: str | None, most: int) -> int:
    return min(int(text), most) if text and text.isascii() and text.isdigit() else 0


def _has_value(attributes: dict[str, str]) -> bool:
    return any(name in attributes for name in _VALUES)


def _formula(attributes: dict[str, str]) -> str:
    """Return the formula of a cell without a result, as shown: `of:=SUM([.A1:.A3])` as `=SUM(A1:A3)`."""
    formula = attributes.get("formula", "")
    return _REFERENCE.sub(r"\1", formula[formula.find("=") :]).replace(":.", ":") if formula else ""
