"""Lets the engines of all tests share what SQLAlchemy compiled: it compiles a statement anew for each engine.

That takes about 5 ms a statement, and each of some thousand tests opens a database of its own.
"""

from typing import Any

import pytest
from sqlalchemy import Engine


class SharedCompilations(dict[Any, Any]):
    """Keeps compiled statements by the kind of database, whichever engine asks."""

    def get(self, key: Any, default: Any = None, /) -> Any:  # noqa: ANN401 - as the library has it
        """Find what any engine of the kind has compiled."""
        return super().get(_of_kind(key), default)

    def __setitem__(self, key: Any, compiled: Any, /) -> None:  # noqa: ANN401 - as above
        super().__setitem__(_of_kind(key), compiled)


def _of_kind(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *rest = key
    return (dialect.name, *rest)


def share_compilations(patch: pytest.MonkeyPatch) -> None:
    """Give each engine the same cache, in place of the one it makes."""
    shared = SharedCompilations()

    def keep_shared(_: Engine, __: object) -> None:
        """Leave what the engine made for itself."""

    patch.setattr(Engine, "_compiled_cache", property(lambda _: shared, keep_shared), raising=False)
