"""One line of the table."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One budget; `met` is None where nothing was measured."""

    name: str
    budget: str
    found: str
    met: bool | None
