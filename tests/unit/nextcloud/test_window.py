from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.nextcloud.window import Position, Window

ITEMS = st.lists(st.tuples(st.integers(-3, 3), st.text("aAbß", max_size=4)), unique=True, max_size=60)


@given(ITEMS, st.integers(1, 7))
def test_pages_give_every_item_once_in_order(items: list[tuple[int, str]], limit: int) -> None:
    after: Position | None = None
    seen: list[tuple[int, str]] = []
    more = True

    while more:
        window = Window[tuple[int, str]](lambda item: Position.of(*item), limit=limit, after=after)
        for item in items:
            window.offer(item)
        page, more = window.page()
        seen += page
        after = Position.of(*page[-1]) if page else None
        assert window.total == len(items)

    assert seen == sorted(items, key=lambda item: Position.of(*item))
