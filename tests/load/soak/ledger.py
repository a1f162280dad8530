"""The ledger of a soak: what happened, and which of it breaks a promise."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: The names of all users of a soak; each user's data holds the own name, and no other one.
_NAMES = re.compile(r"person\d+", re.IGNORECASE)
#: An error of the server itself, which no fault of Nextcloud explains.
_INTERNAL = re.compile(r"internal error|traceback|-32603|something went wrong here", re.IGNORECASE)
#: A token refresh that failed is not tried again for a while (`auth/token_refresh.py`), so this error comes later.
_NOT_RENEWED = "could not be renewed"
_NOT_RENEWED_SECONDS = 30.0
_KEPT = 20


@dataclass(slots=True)
class Window:
    """A time in which a fault is on, or has consequences."""

    kind: str
    begin: float
    end: float


@dataclass
class Ledger:
    """Counts what clients got. `clock` is a monotonic clock."""

    clock: Callable[[], float]
    windows: list[Window] = field(default_factory=list[Window])
    calls: Counter[str] = field(default_factory=Counter[str])
    excused: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    crossed: list[str] = field(default_factory=list[str])
    spurious: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])

    def fault(self, kind: str, seconds: float, *, consequences: float = 1.0) -> None:
        """Note a fault that is on for so many seconds from now, and what may follow from it."""
        now = self.clock()
        self.faults[kind] += 1
        self.windows = [one for one in self.windows if one.end > now - 600]
        self.windows.append(Window(kind, now, now + seconds + consequences))

    def is_excused(self, what: str, since: float) -> bool:
        """Tell whether a fault was on at some time from `since` until now."""
        now, late = self.clock(), _NOT_RENEWED_SECONDS if _NOT_RENEWED in what else 0.0
        return any(one.begin <= now and since <= one.end + late for one in self.windows)

    def error(self, what: str, since: float) -> None:
        """Note an error of a call that began at `since`; only a fault excuses it, and no error of the server itself."""
        if self.is_excused(what, since) and not _INTERNAL.search(what):
            self.excused[re.sub(r"\d+", "N", what)[:160]] += 1
        else:
            _note(self.errors, what)

    def asked(self, name: str, what: str) -> None:
        """Note that a user was asked for consent that stands."""
        _note(self.spurious, f"{name}: {what}")

    def answer(self, name: str, tool: str, answer: Any, *, own: bool) -> None:  # noqa: ANN401 - any JSON
        """Look for other users' names in an answer; with `own` the user's own name must be in it."""
        self.calls[tool] += 1
        names = {found.lower() for found in _NAMES.findall(str(answer))}
        if names - {name} or (own and name not in names):
            _note(self.crossed, f"{tool} of {name} answered {sorted(names)}: {str(answer)[:300]}")


def _note(into: list[str], what: str) -> None:
    # The number counts, and the first texts tell why.
    into.append(what if len(into) < _KEPT else "")
