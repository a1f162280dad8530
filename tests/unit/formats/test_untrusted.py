import json
import tracemalloc
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.formats import untrusted


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("-3", -3), ("007", 7), (str(2**64), 2**64),
        ("", None), ("-", None), ("1" * 21, None), ("9" * 5_000, None), ("²", None), ("٣", None), ("1_0", None),
        (" 1", None), ("1.0", None), ("1e3", None), ("1\n", None),
    ],
)  # fmt: skip
def test_only_a_few_decimal_digits_are_an_integer(text: str, number: int | None) -> None:
    assert untrusted.integer(text) == number


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"a":' * 100_000, "9" * 5_000, b"\xff", '{"a": ' + "9" * 5_000 + "}"]
)
def test_what_python_cannot_parse_is_a_value_error_alone(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        untrusted.read_json(text)


def test_json_is_parsed() -> None:
    assert untrusted.read_json(b'{"a": [1, null, "\\u00e9"]}') == {"a": [1, None, "é"]}


def _elements(value: Any) -> int:  # noqa: ANN401 - whatever JSON holds
    """Count commas and opening brackets outside of strings."""
    if not isinstance(value, (dict, list)):
        return 0
    inner = cast("list[Any]", [*value.values()] if isinstance(value, dict) else value)
    return 1 + max(0, len(inner) - 1) + sum(map(_elements, inner))


@given(
    value=st.recursive(
        st.none() | st.text(',[{"\\\n a', max_size=12),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(',{"\\', max_size=3), inner, max_size=4)
        ),
        max_leaves=20,
    ),
    piece=st.integers(1, 40),
)
def test_elements_are_counted_in_pieces_wherever_a_piece_ends(value: object, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(untrusted, "_PIECE", piece)
        text = json.dumps(value, separators=(",", ":")).encode()
        number = _elements(value)
        assert not untrusted.has_more_elements(text, number)
        assert number == 0 or untrusted.has_more_elements(text, number - 1)


def test_the_elements_of_megabytes_are_counted_in_little_memory() -> None:
    """The strings of a table of 11 MB took 240 MB, and no other thread ran for a second."""
    text = b"[" + b",".join([b'{"columnId":123,"value":"abc"}'] * 200_000) + b"]"

    tracemalloc.start()
    try:
        untrusted.has_more_elements(text, 300_000)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < len(text) / 3
