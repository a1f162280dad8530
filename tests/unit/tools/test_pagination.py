from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.nextcloud.sanitize import shown
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.file_results import Row

ROWS = TypeAdapter(list[Row])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["\0" * 40, '"' * 40, "\\" * 40, "\U000e0041" * 40, "<U+0041>" * 5, "\x7f" * 40]
)
rows = st.builds(
    Row,
    name=st.none() | texts,
    path=st.none(),
    type=texts,
    size=st.none() | st.integers(-(10**18), 10**20 - 1),
    modified=st.none()
    | st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))])),
    favorite=st.sampled_from([None, True]),
    shown_as=st.none() | texts,
)


@given(st.lists(rows, min_size=1, max_size=5))
def test_rows_take_no_more_than_they_say(page: list[Row]) -> None:
    written = shown(ROWS.dump_json(page, exclude_none=True).decode()).encode()

    assert len(written) - len("[]") < sum(row.most_bytes for row in page)


def test_rows_are_only_written_to_be_counted_where_they_may_be_too_many() -> None:
    page = [Row("a", None, "text/plain")] * 3

    certain = pagination.fit(page, room=10, most=10)
    counted = pagination.fit(page, room=10, most=11)

    assert (len(certain), len(counted)) == (3, 1)


def test_the_pages_of_a_list_hold_each_of_its_rows_once() -> None:
    every = [Row(str(number), None, "text/plain") for number in range(5)]
    seen: list[Row] = []
    cursor: str | None = None

    for _ in range(3):
        page, cursor = pagination.Listing(cursor, "query").page(every, 2)
        seen += page

    assert (seen, cursor) == (every, None)


def test_the_cursor_of_a_list_does_not_belong_to_one_with_another_filter() -> None:
    _, cursor = pagination.Listing(None, "query").page([Row("a", None, "text/plain")] * 2, 1)

    with pytest.raises(InvalidInput, match="does not belong to this list"):
        pagination.Listing(cursor, "other")
