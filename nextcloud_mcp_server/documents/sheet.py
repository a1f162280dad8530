"""Extracts text from Excel workbooks (.xlsx): each row a line with tabs, dates as dates."""

import re
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, Final

from nextcloud_mcp_server.documents import sheet_comments, sheet_formula
from nextcloud_mcp_server.documents.archive import Archive, Listener
from nextcloud_mcp_server.documents.hidden_cells import HiddenCells
from nextcloud_mcp_server.documents.output import Output, Refused

#: The maximum number of columns written per row; Excel itself has 16,384.
MAX_COLUMNS: Final = 1_000
MAX_SHARED_BYTES: Final = 67_108_864

#: Ids of the built-in formats (ECMA-376, part 1, 18.8.30) for dates and times.
_BUILT_IN: Final = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_DATE_LETTERS: Final = re.compile(r"[dmyhs]", re.IGNORECASE)
#: An unclosed bracket goes on to the end: otherwise every further one would be looked for there.
_QUOTED: Final = re.compile(r'"[^"]*"|\\.|\[[^\]]*(?:\]|\Z)|_.|\*.')
#: `[h]:mm` is a duration (ECMA-376, part 1, 18.8.31), and built-in format 46 is one of these.
_ELAPSED: Final = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
_BUILT_IN_ELAPSED: Final = 46
_COLUMN: Final = re.compile(r"([A-Z]{1,3})\d+")
#: Excel counts a 29 February 1900, which did not exist, as its day 60.
_LEAP_DAY: Final = 60
_EPOCH: Final = datetime(1899, 12, 30, tzinfo=UTC)
_EPOCH_1904: Final = datetime(1904, 1, 1, tzinfo=UTC)
_LAST_DAY: Final = 2_958_466
#: The XML spellings of true.
_TRUE: Final = frozenset({"1", "true"})


def read(file: BinaryIO, out: Output) -> None:
    """Write the rows of each sheet, then its comments.

    Of a formula, the last result is written, or the formula itself without one.

    Raises:
      Refused: It cannot be read.
    """
    archive = Archive(file)
    main = archive.relations("").get("/officeDocument", "xl/workbook.xml")
    parts, book = archive.relations(main), _Book()
    archive.xml(main, book)
    shared, styles = _Shared(), _Styles()
    for kind, listener in (("/sharedStrings", shared), ("/styles", styles)):
        if parts.get(kind) in archive.names:
            archive.xml(parts[kind], listener)
    cells = _Cells(shared.texts, styles, _EPOCH_1904 if book.since_1904 else _EPOCH)
    people = sheet_comments.people(archive, parts)
    for number, (name, part) in enumerate(book.sheets, 1):
        hidden = " (hidden)" if part in book.hidden else ""
        out.write(f"[Sheet {number} of {len(book.sheets)}: {name}{hidden}]")
        if parts.get(part) in archive.names:
            hidden_cells = HiddenCells()
            archive.xml(parts[part], _Rows(out, cells, hidden_cells))
            if line := hidden_cells.line():
                out.write(line)
            sheet_comments.write(archive, parts[part], people, out)
        out.write("")
        out.progress(number, len(book.sheets))


class _Book(Listener):
    """Lists the sheets."""

    def __init__(self) -> None:
        self.sheets: list[tuple[str, str]] = []
        self.hidden: set[str] = set()
        self.since_1904 = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "sheet":
            self.sheets.append((attributes.get("name", ""), attributes.get("r:id", "")))
            if attributes.get("state") in {"hidden", "veryHidden"}:
                self.hidden.add(attributes.get("r:id", ""))
        elif name == "workbookPr":
            self.since_1904 = attributes.get("date1904") in _TRUE


class _Shared(Listener):
    """Collects the shared strings, to which cells refer by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._parts: list[str] = []
        self._shown = False
        self._reading_aid = False
        self._room = MAX_SHARED_BYTES

    def start(self, name: str, attributes: dict[str, str]) -> None:
        del attributes
        if name == "si":
            self._parts = []
        elif name == "rPh":
            # The phonetic reading of a Japanese word, next to the word.
            self._reading_aid = True
        self._shown = name == "t" and not self._reading_aid

    def end(self, name: str) -> None:
        self._shown = False
        if name == "rPh":
            self._reading_aid = False
        elif name == "si":
            self.texts.append("".join(self._parts))

    def text(self, text: str) -> None:
        if self._shown:
            self._room -= len(text)
            if self._room < 0:
                raise Refused("unpacks")
            self._parts.append(text)


class _Styles(Listener):
    """Finds the cell styles that show a number as a date or as a duration."""

    def __init__(self) -> None:
        self.dates: set[int] = set()
        self.lengths: set[int] = set()
        self._formats: set[int] = set(_BUILT_IN)
        self._elapsed = {_BUILT_IN_ELAPSED}
        self._in_cells = False
        self._count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "cellXfs":
            self._in_cells = True
        elif name == "numFmt":
            code, number = attributes.get("formatCode", ""), _number(attributes.get("numFmtId"))
            bare = _QUOTED.sub("", code).partition(";")[0]
            (self._elapsed.add if _ELAPSED.search(code) else self._elapsed.discard)(number)
            (self._formats.add if _DATE_LETTERS.search(bare) else self._formats.discard)(number)
        elif name == "xf" and self._in_cells:
            number = _number(attributes.get("numFmtId"))
            if number in self._elapsed:
                self.lengths.add(self._count)
            elif number in self._formats:
                self.dates.add(self._count)
            self._count += 1

    def end(self, name: str) -> None:
        if name == "cellXfs":
            self._in_cells = False


class _Cells:
    """Formats the values of cells."""

    def __init__(self, shared: list[str], styles: _Styles, epoch: datetime) -> None:
        self._shared = shared
        self._styles = styles
        self._epoch = epoch

    def show(self, kind: str, style: int, value: str) -> str:
        """Return a cell's value as shown, without purely visual formats."""
        match kind:
            case "s":
                index = _number(value)
                return self._shared[index] if 0 <= index < len(self._shared) else ""
            case "b":
                return {"1": "TRUE", "0": "FALSE"}.get(value, value)
            case "n" | "" if style in self._styles.lengths:
                return _length(value)
            case "n" | "" if style in self._styles.dates:
                return self._date(value)
            case "n" | "":
                return _plain(value)
            case _:
                return value

    def _date(self, value: str) -> str:
        try:
            days = float(value)
        except ValueError:
            return value
        if not 0 <= days < _LAST_DAY:
            return value
        seconds = round(days * 86_400)
        moment = self._epoch + timedelta(seconds=seconds)
        if days < 1:
            return f"{moment:%H:%M:%S}"
        day = f"{moment:%Y-%m-%d}"
        if self._epoch == _EPOCH and (number := seconds // 86_400) <= _LEAP_DAY:
            day = "1900-02-29" if number == _LEAP_DAY else f"{moment + timedelta(days=1):%Y-%m-%d}"
        return day if days == int(days) else f"{day} {moment:%H:%M:%S}"


class _Rows(Listener):
    """Parses the rows of one sheet."""

    def __init__(self, out: Output, cells: _Cells, hidden: HiddenCells) -> None:
        self._out = out
        self._cells = cells
        self._hidden = hidden
        self._row_number = 0
        self._row: list[str] = []
        self._column = 0
        self._kind = ""
        self._style = 0
        self._value: list[str] = []
        self._shown: list[str] | None = None
        self._reading_aid = False
        self._place = ""
        self._formula: list[str] = []
        self._formulas = sheet_formula.Shared()

    def start(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "row":
                self._row = []
                self._row_number = max(self._row_number + 1, _number(attributes.get("r")))
                if attributes.get("hidden") in _TRUE:
                    self._hidden.add_rows(self._row_number, self._row_number)
            case "col" if attributes.get("hidden") in _TRUE:
                self._hidden.add_columns(_number(attributes.get("min")), _number(attributes.get("max")))
            case "c":
                self._kind = attributes.get("t", "n")
                self._style = _number(attributes.get("s", "0"))
                self._place = attributes.get("r", "")
                self._column = _column(self._place, len(self._row))
                self._value, self._formula = [], []
                self._formulas.begin("")
            case "f":
                self._shown = self._formula
                self._formulas.begin(attributes.get("si", "") if attributes.get("t") == "shared" else "")
            case "rPh":
                # The phonetic reading of a Japanese word, next to the word.
                self._reading_aid = True
            case _:
                self._shown = self._value if name in {"v", "t"} and not self._reading_aid else None

    def end(self, name: str) -> None:
        self._shown = None
        if name == "rPh":
            self._reading_aid = False
        elif name == "c" and self._column < MAX_COLUMNS:
            self._row += [""] * (self._column - len(self._row))
            value, formula = "".join(self._value), self._formulas.of("".join(self._formula), self._place)
            # A program that does not calculate stores a formula without a result, although users see one.
            text = self._cells.show(self._kind, self._style, value) if value or not formula else f"={formula}"
            self._row.append(" ".join(text.split()))
        elif name == "row":
            self._out.body("\t".join(self._row).rstrip())

    def text(self, text: str) -> None:
        if self._shown is not None:
            self._shown.append(text)


def _length(value: str) -> str:
    """Return a duration, which is stored in days, as hours, minutes and seconds."""
    try:
        days = float(value)
    except ValueError:
        return value
    if not -_LAST_DAY < days < _LAST_DAY:
        return value
    seconds = round(abs(days) * 86_400)
    sign = "-" if days < 0 and seconds else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _column(reference: str, following: int) -> int:
    """Return the column of a reference, counted from 0: 2 for `C7`."""
    found = _COLUMN.fullmatch(reference)
    if found is None:
        return following
    number = 0
    for letter in found[1]:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else -1


def _plain(value: str) -> str:
    """Return a number as Excel shows it, with 15 digits, instead of 0.30000000000000004."""
    try:
        number = float(value)
    except ValueError:
        return value
    return f"{number:.15g}" if "." in value or "e" in value.lower() else value
