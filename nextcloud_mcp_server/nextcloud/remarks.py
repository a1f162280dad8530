"""What has to be said beside a result: that a part of an answer is not in it, or a warning for its reader.

The clients of the apps return models, and a model has no room for what concerns the whole answer. A call
opens a list here; what is added while it runs, also in its tasks, goes out with its result.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

#: So many remarks are enough to be noticed.
_MOST: Final = 5

_REMARKS: ContextVar[list[str] | None] = ContextVar("remarks", default=None)


@contextmanager
def collected() -> Generator[list[str]]:
    """Collect the remarks of one call; the list fills while it runs."""
    found: list[str] = []
    token = _REMARKS.set(found)
    try:
        yield found
    finally:
        _REMARKS.reset(token)


def add(sentence: str) -> None:
    """Say something about the answer of the call that runs, once; without effect where no call runs."""
    found = _REMARKS.get()
    if found is not None and sentence not in found and len(found) < _MOST:
        found.append(sentence)
