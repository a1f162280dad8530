"""Shares SQLAlchemy's compiled statements between the engines of all tests.

Otherwise each engine compiles a statement again, which takes about 5 ms, and each of some thousand tests opens a
database of its own.
"""

from typing import Any

import pytest
from sqlalchemy import Engine


class SharedCompilations(dict[Any, Any]):
    """Stores compiled statements by database dialect, for every engine."""

    def get(self, key: Any, default: Any = None, /) -> Any:  # noqa: ANN401 - as the library has it
        """Return what any engine of the dialect has compiled."""
        return super().get(_of_kind(key), default)

    def __setitem__(self, key: Any, compiled: Any, /) -> None:  # noqa: ANN401 - as above
        super().__setitem__(_of_kind(key), compiled)


def _of_kind(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *rest = key
    return (dialect.name, *rest)


def share_compilations(patch: pytest.MonkeyPatch) -> None:
    """Give each engine the shared cache in place of its own."""
    shared = SharedCompilations()

    def keep_shared(_: Engine, __: object) -> None:
        """Ignore the cache that an engine creates for itself."""

    patch.setattr(Engine, "_compiled_cache", property(lambda _: shared, keep_shared), raising=False)
