"""Text out of OpenDocument files: texts (.odt), spreadsheets (.ods), presentations (.odp)."""

from typing import BinaryIO, Final

from nextcloud_mcp_server.documents.archive import Archive, Listener
from nextcloud_mcp_server.documents.flow import Flow
from nextcloud_mcp_server.documents.output import Output, Refused

#: Equal cells in a row that are told; an empty rest of a row is written as thousands.
MAX_REPEATED: Final = 100
MAX_SPACES: Final = 100

_CONTENT: Final = "content.xml"
_MANIFEST: Final = "META-INF/manifest.xml"
#: What was deleted but is kept, and what only a layout needs.
_LEFT_OUT: Final = frozenset({"tracked-changes", "forms", "shapes", "dde-source"})
#: What stands before the text of a comment; elsewhere these names are fields that are part of the text.
_ABOUT_COMMENT: Final = frozenset({"creator", "date", "date-string", "creator-initials"})
_SIGNS: Final = {"tab": "\t", "line-break": "\n"}
_PREFIXES: Final = {"list-item": "- ", "note-body": "[note] ", "annotation": "[comment] ", "notes": "Notes: "}


def read(file: BinaryIO, out: Output) -> None:
    """Write the text of the document; a spreadsheet's rows as lines with tabs.

    Raises:
        Refused: It cannot be read.
    """
    archive = Archive(file)
    manifest = _Manifest()
    if _MANIFEST in archive:
        archive.xml(_MANIFEST, manifest)
    if manifest.locked:
        raise Refused("password")
    archive.xml(_CONTENT, _Text(out))


class _Manifest(Listener):
    """Sees whether a password is needed: then the parts are no zip members as usual, but ciphers."""

    locked = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        del attributes
        self.locked = self.locked or name == "encryption-data"


class _Text(Flow):
    """Follows the content of any of these."""

    def __init__(self, out: Output) -> None:
        super().__init__(out)
        self._hidden = 0
        self._prefix = ""
        self._comments = 0
        self._repeated: list[int] = []
        self._pages = 0
        self._spreadsheet = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in _LEFT_OUT or self._hidden or (self._comments and name in _ABOUT_COMMENT):
            self._hidden += 1
            return
        self._prefix = _PREFIXES.get(name, self._prefix)
        self._comments += name == "annotation"
        self._spreadsheet = self._spreadsheet or name == "spreadsheet"
        match name:
            case "table" if self._spreadsheet:
                self.out.write(f"[Sheet: {attributes.get('name', '')}]")
            case "page":
                self._pages += 1
                self.out.write(f"[Slide {self._pages}]")
            case "p" | "h":
                level = _count(attributes.get("outline-level"), 9) if name == "h" else 0
                self.begin("#" * level + " " if level else self._prefix)
                self._prefix = ""
            case "table-row":
                self.begin_row()
            case "table-cell" | "covered-table-cell":
                self._repeated.append(_count(attributes.get("number-columns-repeated"), MAX_REPEATED) or 1)
                self.begin_cell()
            case "s":
                self.add(" " * (_count(attributes.get("c"), MAX_SPACES) or 1))
            case _:
                self.add(_SIGNS.get(name, ""))

    def end(self, name: str) -> None:
        if self._hidden:
            self._hidden -= 1
            return
        self._comments -= name == "annotation"
        match name:
            case "p" | "h":
                self.finish()
            case "table-cell" | "covered-table-cell":
                self.finish_cell(self._repeated.pop())
            case "table-row":
                self.finish_row()
            case "page":
                self.out.write("")
            case "table" if self._spreadsheet:
                self.out.write("")
            case _:
                pass

    def text(self, text: str) -> None:
        if not self._hidden:
            self.add(" ".join(text.split("\n")))


def _count(text: str | None, most: int) -> int:
    return min(int(text), most) if text and text.isascii() and text.isdigit() else 0
