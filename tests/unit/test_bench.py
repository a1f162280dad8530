"""The bench measures this server beside others: each of their programs must be where its command says."""

from pathlib import Path
from typing import Literal

import pytest

from tests.load.servers import Server


@pytest.mark.parametrize("name", ["floor", "thin"])
def test_the_program_of_a_baseline_is_there(name: Literal["floor", "thin"]) -> None:
    _, program, *_ = Server(name).command("stdio", 0)

    assert Path(program).is_file()
