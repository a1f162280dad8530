"""Tables of the sandbox, and how the app reads values."""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

_ADDRESS = re.compile(r"(?:http|https)://[a-zA-Z0-9\-.]+\.[a-zA-Z]{2,3}(?:/\S*)?")
_FORMS = {
    "datetime": r"\d{4}-\d\d-\d\d \d\d:\d\d",
    "datetime-date": r"\d{4}-\d\d-\d\d",
    "datetime-time": r"\d\d:\d\d",
}


@dataclass(slots=True)
class StoredColumn:
    """One column, with the fields of its creation."""

    id: int
    fields: dict[str, Any]
    made_at: str
    uuid: UUID = field(default_factory=uuid4)

    @property
    def kind(self) -> str:
        """Return the type with its subtype."""
        return "-".join(filter(None, (self.fields["type"], self.fields.get("subtype"))))

    def parsed(self, value: Any) -> Any:  # noqa: ANN401 - as any column has it
        """Read a value as the app does: it drops what it cannot read, without an error."""
        kind, options = self.kind, [option["id"] for option in self.fields.get("selectionOptions", [])]
        found: Any = value
        if kind.startswith("number"):
            found = value if isinstance(value, int | float) else None
        elif kind == "selection":
            found = str(value) if value in options else None
        elif kind == "selection-multi":
            found = sorted({*options}.intersection(value or []))
        elif kind == "selection-check":
            found = "true" if value in ("true", True, 1, "1") else "false"
        elif kind == "text-link":
            found = _link(value, str(self.fields.get("textAllowedPattern") or "").split(","))
        elif kind in _FORMS:
            found = value if re.fullmatch(_FORMS[kind], str(value)) else None
        return found

    def read(self, value: Any) -> Any:  # noqa: ANN401 - as any column has it
        """Return a value as a later read returns it: a number that was stored as null is 0 (`RowCellNumberMapper`)."""
        return 0 if value is None and self.fields["type"] == "number" else value


@dataclass(slots=True)
class StoredRow:
    """One row, by the ids of its columns."""

    id: int
    values: dict[int, Any]


@dataclass(slots=True)
class StoredTable:
    """One table of one user; `views` are returned as they were created."""

    id: int
    title: str
    emoji: str
    owner: str
    made_at: str
    columns: dict[int, StoredColumn] = field(default_factory=dict[int, StoredColumn])
    rows: dict[int, StoredRow] = field(default_factory=dict[int, StoredRow])
    views: list[Any] = field(default_factory=list[Any])


@dataclass(slots=True)
class TableStore:
    """All tables of all users."""

    tables: dict[int, StoredTable] = field(default_factory=dict[int, StoredTable])
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(701), repr=False)

    def add(self, title: str, emoji: str, owner: str, made_at: str) -> StoredTable:
        """Make a table."""
        made = StoredTable(next(self.ids), title, emoji, owner, made_at)
        self.tables[made.id] = made
        return made

    def add_column(self, table: StoredTable, fields: dict[str, Any], made_at: str) -> StoredColumn:
        """Make a column."""
        made = StoredColumn(next(self.ids), fields, made_at)
        table.columns[made.id] = made
        return made

    def add_row(self, table: StoredTable, values: dict[int, Any]) -> StoredRow:
        """Add a row of parsed values."""
        made = StoredRow(next(self.ids), values)
        table.rows[made.id] = made
        return made


def _link(value: Any, allowed: list[str]) -> str | None:  # noqa: ANN401 - as any column has it
    """Return a link with its title, if its provider is allowed, or the URL in a text (`TextLinkBusiness`)."""
    text = str(value or "")
    if text.startswith("{"):
        return text if json.loads(text).get("providerId", "") in allowed else None
    found = _ADDRESS.search(text)
    return None if found is None else json.dumps({"title": found[0], "value": found[0], "providerId": "url"})
