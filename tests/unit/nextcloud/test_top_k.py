import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.nextcloud.top_k import Position, TopK, cut

ITEMS = st.lists(st.tuples(st.integers(-3, 3), st.text("aAbß", max_size=4)), unique=True, max_size=60)


@given(ITEMS, st.integers(1, 7))
def test_pages_give_every_item_once_in_order(items: list[tuple[int, str]], limit: int) -> None:
    after: Position | None = None
    seen: list[tuple[int, str]] = []
    more = True

    while more:
        window = TopK[tuple[int, str]](lambda item: Position.of(*item), limit=limit, after=after)
        for item in items:
            window.offer(item)
        page, more = window.page()
        seen += page
        after = Position.of(*page[-1]) if page else None
        assert window.total == len(items)

    assert seen == sorted(items, key=lambda item: Position.of(*item))


@pytest.mark.parametrize(
    ("rows", "limit", "offset", "total", "kept", "more"),
    [
        ([1, 2], 2, 0, None, [1, 2], False),
        ([1, 2, 3], 2, 0, None, [1, 2], True),
        ([3, 4], 2, 2, 4, [3, 4], False),
        # The limit is ignored, and the offset is not.
        ([3, 4, 5], 2, 2, 5, [3, 4], True),
        # Both are.
        ([1, 2, 3, 4, 5], 2, 2, 5, [3, 4], True),
        ([1, 2, 3, 4, 5], 2, 4, 5, [5], False),
        ([], 2, 0, 0, [], False),
    ],
)
def test_an_answer_longer_than_asked_for_is_cut_where_the_page_ends(
    rows: list[int], limit: int, offset: int, total: int | None, kept: list[int], *, more: bool
) -> None:
    assert cut(rows, limit, offset=offset, total=total) == (kept, more)
