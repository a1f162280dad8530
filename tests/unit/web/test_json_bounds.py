"""What a JSON text may be made of, compared with a count by the parser."""

import json
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.web.json_bounds import JsonBounds

TEXTS = st.text(alphabet='ab,[]{}:"\\\n\u00e4\U0001f600', max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=25,
)


def members(value: object) -> list[object] | None:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else None


def marks(value: object) -> int:
    """Count the opening brackets and the commas that the parsed value was written with."""
    inner = members(value)
    return 0 if inner is None else max(1, len(inner)) + sum(map(marks, inner))


def depth(value: object) -> int:
    inner = members(value)
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def scan(text: bytes, size: int, **limits: int) -> JsonBounds:
    bounds = JsonBounds(**limits)
    for start in range(0, len(text), size):
        bounds.feed(text[start : start + size])
    return bounds


@settings(max_examples=80)
@given(VALUES, st.integers(1, 40))
def test_elements_are_counted_as_the_parser_finds_them_however_the_text_is_cut(
    value: object, size: int
) -> None:
    text = json.dumps(value, ensure_ascii=size % 2 == 0).encode()

    assert scan(text, size).elements == marks(value)


@settings(max_examples=50)
@given(VALUES, st.integers(1, 40))
def test_the_deepest_allowed_text_passes_and_one_level_less_is_refused(value: object, size: int) -> None:
    text = json.dumps(value).encode()

    scan(text, size, max_depth=depth(value))
    if depth(value):
        with pytest.raises(ValueError, match="too deeply"):
            scan(text, size, max_depth=depth(value) - 1)


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"{}," * 20_000 + b"{}]",
        b'["' + b'","' * 20_001 + b'"]',
        b'"a' * 100_000,
        b"[" + b"1," * 20_000,
    ],
)
def test_too_many_elements_are_refused_before_the_end(text: bytes) -> None:
    with pytest.raises(ValueError, match="more than 20,000 elements"):
        scan(text, 1000)


def test_a_long_text_full_of_commas_is_one_element() -> None:
    text = json.dumps({"content": 'x, [y] {"z"}, \\' * 50_000}).encode()

    assert scan(text, 65_536).elements == 1


def test_brackets_that_only_close_are_refused_at_the_first() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        scan(b"[" + b"]" * 1_000_000, 65_536)


def test_an_escape_that_is_cut_in_two_stays_one() -> None:
    bounds = JsonBounds()
    for chunk in (b'["\\', b"", b'" , [ ', b'", ""]'):
        bounds.feed(chunk)

    assert bounds.elements == 2
