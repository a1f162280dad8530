import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.formats.json_pieces import pieces

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
META = {"status": "ok", "statuscode": 200, "message": "it's [fine], “OK”"}


def enveloped(items: list[Any]) -> dict[str, Any]:
    return {"ocs": {"meta": META, "data": items}}


@given(
    items=st.lists(ANYTHING, min_size=1),
    size=st.integers(1, 60),
    in_envelope=st.booleans(),
    indent=st.sampled_from([None, 1]),
    is_ascii=st.booleans(),
)
def test_the_items_of_all_pieces_are_the_items_of_the_list(
    items: list[Any], size: int, indent: int | None, *, in_envelope: bool, is_ascii: bool
) -> None:
    whole = enveloped(items) if in_envelope else items
    text = json.dumps(whole, indent=indent, ensure_ascii=is_ascii).encode(errors="surrogatepass")

    found = [json.loads(piece.decode(errors="surrogatepass")) for piece in pieces(text, size)]

    lists = [one["ocs"]["data"] for one in found] if in_envelope else found
    assert [item for one in lists for item in one] == items
    assert all(lists)
    assert not in_envelope or all(one["ocs"]["meta"] == META for one in found)


def test_a_piece_has_the_size_and_at_most_one_item_more() -> None:
    text = json.dumps(["x" * 98] * 1_000, separators=(",", ":")).encode()

    sizes = [len(piece) for piece in pieces(text, 1_000)]

    assert len(sizes) > 90
    assert max(sizes) < 1_000 + 110


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", '{"data": [1, 2]}', '"[1]"', "7", "[", "[1", "[1,", "[1,]", "[1 2]", "[1]]", "[1] 2", "[1]}}",
        '{"ocs": {"meta": {}, "data": [1]}', '{"ocs": {"meta": {}, "data": [1], "more": 1}}',
        '{"ocs": {"meta": {"a": {}}, "data": [1]}}', '{"ocs": {"data": [1], "meta": {}}}', "[" * 100_000,
        "[1, " + "9" * 5_000 + "]", "[]", "[\x00]",
    ],
)  # fmt: skip
def test_what_is_not_a_list_or_does_not_end_as_one_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(pieces(text.encode(), 1))
