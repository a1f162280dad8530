import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.errors import InvalidInput, TooLarge
from nextcloud_mcp_server.formats import passage


def test_occurrences_that_overlap_count_each() -> None:
    assert passage.times("aaaa", "aa") == 3
    assert passage.times("abcabc", "abc") == 2
    assert passage.times("abc", "x") == 0


@given(st.text("ab", max_size=10), st.text("ab", min_size=1, max_size=3))
def test_occurrences_are_counted_as_at_each_position(text: str, part: str) -> None:
    assert passage.times(text, part) == sum(text.startswith(part, at) for at in range(len(text)))


def test_only_a_few_occurrences_are_counted() -> None:
    assert passage.in_words(passage.times("a" * 10, "a")) == "10 times"
    assert passage.in_words(passage.times("a" * 1_000, "a")) == "more than 10 times"


def test_every_occurrence_is_replaced() -> None:
    assert passage.replace_every("a b a", "a", "cc") == ("cc b cc", 2)


def test_a_text_that_would_be_too_long_is_refused() -> None:
    text = "a" * 1_000_000

    assert passage.replace_every(text, "a", "b" * 8)[1] == 1_000_000
    with pytest.raises(InvalidInput, match="1,000,000 places"):
        passage.replace_every(text, "a", "b" * 9)


def test_a_text_that_takes_too_much_memory_is_not_edited() -> None:
    passage.refuse_long("a" * 9_000_000)
    passage.refuse_long("😀" * 4_000_000)

    with pytest.raises(TooLarge, match="too many to be edited here"):
        passage.refuse_long("😀" * 4_200_000)
