"""The rows in which pages show what a client may do: one for each app, with one choice in each.

Stored, granted and compared are scopes only; here alone a choice becomes scopes, for the pages of every mode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nextcloud_mcp_server.auth.scopes import SCOPES, is_writing
from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.web.forms import single

#: A form has a field for each row, with this before the name of the app.
FIELD = "allow."
#: How many rows are shown at once where no call waits: with more, a phone would have to scroll to the buttons.
FIRST_ROWS = 4

_ICONS = {app.name: app.icon for app in APPS}
_NOTHING: frozenset[str] = frozenset()


class Level(StrEnum):
    """What a row may be set to, from the least to the most; the value of its field."""

    OFF = "off"
    READ = "read"
    CHANGE_ONLY = "change-only"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of a row. `closed`: it cannot be chosen, since more is allowed already."""

    level: Level
    scopes: tuple[str, ...]
    chosen: bool
    closed: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One app, by the name in its scopes. `granted` is the choice that is allowed already."""

    app: str
    icon: str
    choices: tuple[Choice, ...]
    needed: bool
    granted: Level | None

    @property
    def field(self) -> str:
        """The name of the form's field."""
        return f"{FIELD}{self.app}"

    @property
    def chosen(self) -> bool:
        """Whether anything is chosen."""
        return any(choice.chosen and choice.scopes for choice in self.choices)


@dataclass(frozen=True, slots=True)
class Told:
    """What an app may do, on a page without a choice."""

    app: str
    icon: str
    level: Level
    scopes: tuple[str, ...]


def told(allowed: frozenset[str], *, asked: frozenset[str] = _NOTHING) -> list[Told]:
    """Build the rows of what is allowed; an app that was asked for and got nothing is `off`."""
    return [
        Told(
            app,
            _ICONS[app],
            _most(_levels(_own(app)), allowed),
            tuple(scope for scope in own if scope in allowed),
        )
        for app, own in _by_app(allowed | asked).items()
    ]


def rows_of(
    offered: frozenset[str],
    *,
    chosen: frozenset[str],
    needed: frozenset[str] = _NOTHING,
    granted: frozenset[str] = _NOTHING,
) -> list[Row]:
    """Build the rows for the scopes that may be allowed.

    `chosen` are the scopes that the rows are set to; no row is set to more. `needed` are those of a waiting call,
    and `granted` those that the page cannot end.
    """
    return [
        _row(app, frozenset(own), chosen=chosen, needed=needed, granted=granted)
        for app, own in _by_app(offered).items()
    ]


def scopes_in(form: Mapping[str, Sequence[str]], offered: frozenset[str]) -> frozenset[str]:
    """Return the scopes that the rows of a form are set to; what is not offered adds none."""
    return frozenset(
        scope
        for app, own in _by_app(offered).items()
        for scope in _levels(frozenset(own)).get(_level(form, app), _NOTHING)
    )


def first_and_more(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Split rows: what a waiting call needs, and the rest; where none waits, the first rows and the rest."""
    first = [row for row in rows if row.needed] or list(rows[:FIRST_ROWS])
    return first, [row for row in rows if row not in first]


def _row(
    app: str,
    own: frozenset[str],
    *,
    chosen: frozenset[str],
    needed: frozenset[str],
    granted: frozenset[str],
) -> Row:
    levels = _levels(own)
    now, before = _most(levels, chosen), _most(levels, granted)
    if Level.CHANGE in levels:
        # Changing without reading is shown only where it is needed, or allowed: else three choices are enough.
        if now is not Level.CHANGE_ONLY:
            del levels[Level.CHANGE_ONLY]
        elif not own.isdisjoint(needed | granted):
            del levels[Level.READ]
    return Row(
        app=app,
        icon=_ICONS[app],
        choices=tuple(
            Choice(level, _in_order(scopes), chosen=level == now, closed=not granted & own <= scopes)
            for level, scopes in levels.items()
        ),
        needed=not needed.isdisjoint(own),
        granted=None if before is Level.OFF else before,
    )


def _levels(own: frozenset[str]) -> dict[Level, frozenset[str]]:
    """Return the choices that the scopes of one app allow."""
    writing = frozenset(filter(is_writing, own))
    reading = own - writing
    levels = {Level.OFF: _NOTHING}
    if reading:
        levels[Level.READ] = reading
    if writing:
        levels[Level.CHANGE_ONLY] = writing
    if reading and writing:
        levels[Level.CHANGE] = own
    return levels


def _most(levels: Mapping[Level, frozenset[str]], scopes: frozenset[str]) -> Level:
    """Return the last choice that allows none but these scopes."""
    return [level for level, own in levels.items() if own <= scopes][-1]


def _own(app: str) -> frozenset[str]:
    return frozenset(scope for scope in SCOPES if scope.partition(":")[0] == app)


def _level(form: Mapping[str, Sequence[str]], app: str) -> Level:
    value = single(form.get(f"{FIELD}{app}", ()))
    return Level(value) if value in list(Level) else Level.OFF


def _by_app(offered: frozenset[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for scope in _in_order(offered):
        found.setdefault(scope.partition(":")[0], []).append(scope)
    return found


def _in_order(scopes: frozenset[str]) -> tuple[str, ...]:
    return tuple(scope for scope in SCOPES if scope in scopes)
