"""Converts the values of table cells between the form users write and the form the Tables app stores.

Values that Tables 1.0 cannot parse are stored as empty without an error: a label where it wants a number, a date in
another form. So a value is checked against its column before it is sent.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import partial
from typing import Annotated, Final, cast

from pydantic import Field

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.formats import untrusted
from nextcloud_mcp_server.nextcloud.http import Answer
from nextcloud_mcp_server.nextcloud.ids import Id
from nextcloud_mcp_server.nextcloud.php_json import LIST, as_map
from nextcloud_mcp_server.nextcloud.spelling import folded

_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_MOST_STARS: Final = 5
_WHOLE: Final = 100
_LISTED: Final = 30
#: Longer texts are no choice of a selection.
_LONGEST_LABEL: Final = 10_000
#: The largest integer up to which a float represents every integer.
_EXACT: Final = 2**53
_PREFIXES: Final = {0: "", 1: "group:", 2: "team:"}


class Option(Answer):
    """One choice of a selection."""

    id: int
    label: str


class Column(Answer):
    """One column of a table."""

    id: Id
    title: str
    type: str
    subtype: str | None = ""
    mandatory: bool = False
    description: str | None = ""
    minimum: float | None = Field(default=None, validation_alias="numberMin")
    maximum: float | None = Field(default=None, validation_alias="numberMax")
    longest: int | None = Field(default=None, validation_alias="textMaxLength")
    options: Annotated[list[Option], LIST] = Field(
        default_factory=list[Option], validation_alias="selectionOptions"
    )

    @property
    def kind(self) -> str:
        """The type as in Tables' capabilities, such as `text-line` or `selection`."""
        return f"{self.type}-{self.subtype}" if self.subtype else self.type


def shown(column: Column, value: object) -> object:
    """Convert a stored value for display; unexpected values are returned unchanged."""
    if value in (None, "", []):
        return None
    reader = _READERS.get(column.kind)
    return value if reader is None else reader(column, value)


def stored(column: Column, value: object) -> object:
    """Convert a value from a client to what Tables stores; None clears the cell.

    Raises:
      InvalidInput: It does not fit the column; the error says what does.
    """
    if value in (None, ""):
        return None
    writer = _WRITERS.get(column.kind)
    if writer is None:
        raise _unfit(column, f"is of the type {column.kind}, which can only be read here")
    ready = writer(column, value)
    _refuse_beyond(column, ready)
    return ready


def _refuse_beyond(column: Column, ready: object) -> None:
    """Check a value against the optional limits of its column; Tables checks them for every type."""
    longest, low, high = column.longest, column.minimum, column.maximum
    if isinstance(ready, str):
        if longest is not None and len(ready) > longest:
            raise _unfit(column, f"cannot be longer than {max(longest, 0)} characters")
    elif isinstance(ready, int | float):
        limits: list[str] = []
        if low is not None:
            limits.append(f"at least {_plain(low)}")
        if high is not None:
            limits.append(f"at most {_plain(high)}")
        if (low is not None and ready < low) or (high is not None and ready > high):
            raise _unfit(column, f"must be {' and '.join(limits)}")


def _plain(number: float) -> str:
    """Return a limit with all its digits."""
    return str(int(number)) if number.is_integer() and abs(number) < _EXACT else str(number)


def _unfit(column: Column, what: str) -> errors.InvalidInput:
    return errors.InvalidInput(f"'{column.title}' {what}.")


# From what is stored


def _whole(value: object) -> int | None:
    """Return the id of an option, which is stored as a number or as text."""
    return untrusted.integer(str(value)) if isinstance(value, str | int) else None


def _choice(column: Column, value: object) -> object:
    number = _whole(value)
    return next((option.label for option in column.options if option.id == number), value)


def _choices(column: Column, value: object) -> object:
    return [_choice(column, one) for one in cast("list[object]", value)] if isinstance(value, list) else value


def _ticked(_: Column, value: object) -> bool:
    return str(value).strip('"').lower() in ("true", "1")


def _link(_: Column, value: object) -> object:
    """Return the URL of a link, which is stored with its title as JSON."""
    try:
        url = as_map(untrusted.read_json(value)).get("value") if isinstance(value, str) else None
    except ValueError:
        url = None
    return url if isinstance(url, str) else value


def _people(_: Column, value: object) -> object:
    return [_person(one) for one in cast("list[object]", value)] if isinstance(value, list) else value


def _person(value: object) -> object:
    if not isinstance(value, dict):
        return value
    entry = cast("dict[str, object]", value)
    kind = entry.get("type")
    return f"{_PREFIXES.get(kind, '') if isinstance(kind, int) else ''}{entry.get('id')}"


# To what is stored


def _text(column: Column, value: object) -> str:
    if not isinstance(value, str):
        raise _unfit(column, "must be text")
    return value


def _stored_link(column: Column, value: object) -> str:
    link = value.strip() if isinstance(value, str) else ""
    if not link.startswith(("http://", "https://")) or any(char.isspace() for char in link):
        raise _unfit(column, "must be an address such as https://example.org")
    # Tables would cut a bare URL after three letters of its top-level domain.
    return json.dumps({"title": link, "value": link, "providerId": "url"})


def _number(column: Column, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not _is_finite(value):
        raise _unfit(column, "must be a number")
    return value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        # An integer that no float can represent, which is how Tables stores it.
        return False


def _integer(most: int, column: Column, value: object) -> int:
    # In JSON 5.0 is the same number as 5 (RFC 8259 §6), and some clients write it so.
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
        raise _unfit(column, f"must be a whole number from 0 to {most}")
    return number


def _several(one: "_Writer", column: Column, value: object) -> list[object]:
    if not isinstance(value, list):
        raise _unfit(column, "must be a list")
    return [one(column, each) for each in cast("list[object]", value)]


def _tick(column: Column, value: object) -> str:
    if not isinstance(value, bool):
        raise _unfit(column, "must be true or false")
    return "true" if value else "false"


def _chosen(column: Column, value: object) -> int:
    text = str(value) if isinstance(value, str | int | float) else ""
    # Two options may differ in letter case alone.
    found = next((each.id for each in column.options if each.label == text), None)
    if found is None and len(text) <= _LONGEST_LABEL:
        wanted = folded(text)
        found = next((each.id for each in column.options if folded(each.label) == wanted), None)
    if found is None:
        labels = ", ".join(f"“{option.label}”" for option in column.options[:_LISTED])
        raise _unfit(column, f"has no choice “{text[:100]}”. Its choices are: {labels or 'none'}")
    return found


def _time(column: Column, value: object) -> str:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise _unfit(column, "must be a time such as 18:30")
    return value


def _date(column: Column, value: object) -> str:
    try:
        return date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise _unfit(column, "must be a date such as 2026-12-24") from None


def _moment(column: Column, value: object) -> str:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        moment = None
    # Tables would drop a zone without converting the time.
    if moment is None or moment.tzinfo is not None:
        raise _unfit(column, "must be a time without a zone, such as 2026-12-24 18:30")
    return f"{moment:%Y-%m-%d %H:%M}"


def _stored_person(column: Column, value: object) -> dict[str, object]:
    if not isinstance(value, str) or not value:
        raise _unfit(column, "must be a list of user ids, or of ids with group: or team: before them")
    kind = next((number for number, prefix in _PREFIXES.items() if prefix and value.startswith(prefix)), 0)
    return {"id": value.removeprefix(_PREFIXES[kind]), "type": kind}


_Reader = Callable[[Column, object], object]
_Writer = Callable[[Column, object], object]

_READERS: Final[Mapping[str, _Reader]] = {
    "selection": _choice,
    "selection-multi": _choices,
    "selection-check": _ticked,
    "text-link": _link,
    "usergroup": _people,
}
_WRITERS: Final[Mapping[str, _Writer]] = {
    "text-line": _text,
    "text-rich": _text,
    "text-link": _stored_link,
    "number": _number,
    "number-stars": partial(_integer, _MOST_STARS),
    "number-progress": partial(_integer, _WHOLE),
    "selection": _chosen,
    "selection-multi": partial(_several, _chosen),
    "selection-check": _tick,
    "datetime": _moment,
    "datetime-date": _date,
    "datetime-time": _time,
    "usergroup": partial(_several, _stored_person),
}
