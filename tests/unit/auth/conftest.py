from collections.abc import Generator

import pytest
import stamina


@pytest.fixture(autouse=True)
def no_pauses() -> Generator[None]:
    """Readings are repeated without pauses."""
    with stamina.set_testing(True, attempts=2, cap=True):
        yield
