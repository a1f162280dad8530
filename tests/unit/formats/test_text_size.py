"""Whether values hold much text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from nextcloud_mcp_server.formats.text_size import is_longer


class Row(BaseModel):
    """A row of a response."""

    title: str | None = None
    parts: list[str] | None = None
    secret: str = Field(default="", exclude=True)


@pytest.mark.parametrize(
    "value",
    [
        "a" * 11,
        ["a"] * 12,
        [["aaaa", "aaaa", "aaaa"]],
        {"key": "a" * 9},
        {"a" * 11: 1},
        Row(title="a" * 11),
        [1] * 11,
    ],
)
def test_more_than_so_many_characters_are_found_wherever_they_are(value: object) -> None:
    assert is_longer(value, 10)


def test_what_a_response_leaves_out_does_not_count() -> None:
    assert not is_longer([Row(secret="a" * 99)], 2)
    assert not is_longer([Row(), None], 3)


@given(
    parts=st.lists(st.text(max_size=20), max_size=20) | st.none(),
    title=st.text(max_size=50) | st.none(),
    most=st.integers(0, 100),
)
def test_what_is_longer_is_longer_in_json_too(parts: list[str] | None, title: str | None, most: int) -> None:
    row = Row(title=title, parts=parts)
    if is_longer(row, most):
        assert len(row.model_dump_json(exclude_none=True)) > most
