import re
from itertools import product

import pytest

from nextcloud_mcp_server.formats import line_ends


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\\n"])
def test_every_line_end_is_written_in_the_same_way_and_everything_else_stays(end: str) -> None:
    texts = ["".join(piece) for length in range(6) for piece in product("\r\na", repeat=length)]

    assert [line_ends.written(text, end) for text in texts] == [
        re.sub(r"\r?\n", lambda _: end, text) for text in texts
    ]
