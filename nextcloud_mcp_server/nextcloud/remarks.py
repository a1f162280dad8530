"""Remarks about a result: that part of a response is missing, or a warning for the reader.

The clients of the apps return models, which have no field for remarks about the whole response. A call opens a list
here; remarks added while it runs, also in its tasks, are returned with its result.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

#: The maximum number of remarks per call.
_MOST: Final = 5

_REMARKS: ContextVar[list[str] | None] = ContextVar("remarks", default=None)


@contextmanager
def collected() -> Generator[list[str]]:
    """Collect the remarks of one call; yields the list, which fills while the call runs."""
    found: list[str] = []
    token = _REMARKS.set(found)
    try:
        yield found
    finally:
        _REMARKS.reset(token)


def add(sentence: str) -> None:
    """Add a remark to the current call, once; without effect outside a call."""
    found = _REMARKS.get()
    if found is not None and sentence not in found and len(found) < _MOST:
        found.append(sentence)
