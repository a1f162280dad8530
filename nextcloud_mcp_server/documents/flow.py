"""Converts paragraphs and tables from XML or HTML to lines of text."""

from nextcloud_mcp_server.documents.archive import Listener
from nextcloud_mcp_server.documents.output import Output


class Flow(Listener):
    """Collects paragraphs; in a table they become cells, and a row becomes one line with tabs."""

    def __init__(self, out: Output) -> None:
        self.out = out
        self._open: list[list[str]] = []
        self._prefixes: list[str] = []
        self._rows: list[list[str]] = []
        self._cells: list[list[str]] = []

    def add(self, text: str) -> None:
        """Add to the innermost open paragraph; text outside of paragraphs is ignored."""
        if self._open:
            self._open[-1].append(text)

    def begin(self, prefix: str = "") -> None:
        """Open a paragraph; a text frame or a note may open one inside another."""
        self._open.append([])
        self._prefixes.append(prefix)

    def mark(self, prefix: str) -> None:
        """Set the prefix of the innermost paragraph; the last call counts."""
        if self._prefixes:
            self._prefixes[-1] = prefix

    def finish(self) -> None:
        """Close the innermost paragraph."""
        text = "".join(self._open.pop()) if self._open else ""
        prefix = self._prefixes.pop() if self._prefixes else ""
        if self._cells:
            # A cell keeps the marks of comments and notes, but not those of headings.
            self._cells[-1].append(prefix + text if prefix.startswith("[") else text)
        elif text.strip():
            self.out.body(prefix + text)

    def begin_row(self) -> None:
        """Open a row; a cell may contain a nested table."""
        self._rows.append([])

    def begin_cell(self) -> None:
        """Open a cell."""
        self._cells.append([])

    def finish_cell(self, times: int = 1) -> None:
        """Close a cell, which may be repeated."""
        text = " ".join(" ".join(self._cells.pop()).split()) if self._cells else ""
        if self._rows:
            self._rows[-1] += [text] * times

    def finish_row(self) -> None:
        """Close a row."""
        line = "\t".join(self._rows.pop() if self._rows else []).rstrip()
        if self._cells:
            self._cells[-1].append(line)
        else:
            self.out.body(line)
