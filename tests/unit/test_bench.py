"""The bench measures this server beside others: each of their programs must be where its command says."""

from pathlib import Path
from typing import Literal

import pytest

from tests.load.measure import Measured
from tests.load.report import BY_HAND, document
from tests.load.servers import Server


@pytest.mark.parametrize("name", ["floor", "thin"])
def test_the_program_of_a_baseline_is_there(name: Literal["floor", "thin"]) -> None:
    _, program, *_ = Server(name).command("stdio", 0)

    assert Path(program).is_file()


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_written_by_hand_stays_in_the_page(*, whole: bool) -> None:
    measured = Measured()
    page = document(measured) + BY_HAND + "\n| soak | kept |\n"

    again = document(measured, page, whole=whole)

    assert again == page
