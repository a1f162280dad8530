"""Values of cells against the limits of their columns, each of which may be there or not."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.apps.tables.values import Column, shown, stored
from nextcloud_mcp_server.errors import InvalidInput
from tests.dav_fakes import recorded

[NAME, COUNT] = json.loads(recorded("tables/columns_list").content)
KINDS = (
    ("text", "line"), ("text", "rich"), ("text", "link"), ("text", "long"), ("text", ""), ("number", ""),
    ("number", "stars"), ("number", "progress"), ("selection", ""), ("selection", "multi"), ("selection", "check"),
    ("datetime", ""), ("datetime", "date"), ("datetime", "time"), ("usergroup", ""), ("hologram", ""),
)  # fmt: skip
OPTIONS = [{"id": 1, "label": "Red"}, {"id": 2, "label": "7"}]
# What a column holds of a limit: nothing, a whole number, or one with decimals.
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
LIMITS = st.none() | st.integers(-20, 20) | st.floats(-20, 20)
LENGTHS = st.none() | st.integers(-1, 30)
SENT = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    st.floats(),
    st.text(max_size=40),
    st.sampled_from(
        ["Red", "7", "2026-12-24", "2026-12-24 18:30", "18:30", "https://a.test/x", "group:team"]
    ),
    st.lists(st.text(max_size=3) | st.integers() | st.none(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def column(**fields: object) -> Column:
    """Make a column out of the recorded one, with other fields."""
    return Column.model_validate({**COUNT, "numberMin": None, "numberMax": None, **fields})


def is_refused_by_tables(value: object, low: float | None, high: float | None, longest: int | None) -> bool:
    """Decide as `validateColumnValueLimits` of Tables 1.0.9 (lib/Service/RowService.php) does."""
    if isinstance(value, str):
        return longest is not None and len(value) > longest
    if isinstance(value, int | float):
        return (low is not None and value < low) or (high is not None and value > high)
    return False


def outcome(made: Column, value: object) -> tuple[object, str]:
    """Give what would be sent, and the sentence of a refusal or nothing; any other exception is a fault."""
    try:
        return stored(made, value), ""
    except InvalidInput as refused:
        return None, str(refused)


@pytest.mark.parametrize(
    ("limits", "value", "sentence"),
    [
        ({"numberMin": 5}, 4, "'Count' must be at least 5."),
        ({"numberMin": 5, "numberMax": None}, 4.5, "'Count' must be at least 5."),
        ({"numberMin": 0}, -1, "'Count' must be at least 0."),
        ({"numberMax": 5}, 6, "'Count' must be at most 5."),
        ({"numberMax": 0}, 1, "'Count' must be at most 0."),
        ({"numberMin": 5, "numberMax": 9}, 4, "'Count' must be at least 5 and at most 9."),
        ({"numberMin": 1234567.25}, 4, "'Count' must be at least 1234567.25."),
        ({"numberMax": 12345678}, 10**9, "'Count' must be at most 12345678."),
        ({"numberMin": -0.5}, -1, "'Count' must be at least -0.5."),
        ({"subtype": "stars", "numberMin": 2}, 1, "'Count' must be at least 2."),
        ({"subtype": "progress", "numberMax": 50}, 51, "'Count' must be at most 50."),
        ({}, float("nan"), "'Count' must be a number."),
        ({}, float("inf"), "'Count' must be a number."),
        ({}, 10**400, "'Count' must be a number."),
        ({"type": "text", "textMaxLength": 3}, "abcd", "'Count' cannot be longer than 3 characters."),
        ({"type": "text", "textMaxLength": 0}, "a", "'Count' cannot be longer than 0 characters."),
    ],
)  # fmt: skip
def test_a_value_beyond_one_limit_is_told_that_limit_in_full(
    limits: dict[str, object], value: object, sentence: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        stored(column(**{"subtype": "line" if limits.get("type") == "text" else "", **limits}), value)

    assert str(refused.value) == sentence


@given(low=LIMITS, high=LIMITS, value=NUMBERS)
@settings(max_examples=80, deadline=None)
def test_a_number_is_taken_where_tables_takes_it(low: float | None, high: float | None, value: float) -> None:
    counted = column(numberMin=low, numberMax=high)

    taken, refusal = outcome(counted, value)

    if is_refused_by_tables(value, low, high, None):
        assert ("at least" in refusal, "at most" in refusal) == (low is not None, high is not None)
    else:
        assert (taken, refusal) == (value, "")


@given(longest=LENGTHS, value=st.text(min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_a_text_is_taken_where_tables_takes_it(longest: int | None, value: str) -> None:
    named = Column.model_validate({**NAME, "textMaxLength": longest})

    taken, refusal = outcome(named, value)

    assert bool(refusal) == is_refused_by_tables(value, None, None, longest)
    assert refusal or taken == value


@given(
    kind=st.sampled_from(KINDS),
    limits=st.fixed_dictionaries({
        "numberMin": LIMITS, "numberMax": LIMITS, "textMaxLength": LENGTHS, "numberDefault": LIMITS,
        "numberDecimals": st.none() | st.integers(0, 5), "textDefault": st.none() | st.text(max_size=5),
        "textAllowedPattern": st.none() | st.sampled_from(["[a-z]+", "(", "url"]),
        "selectionDefault": st.none() | st.just(""),
        "selectionOptions": st.none() | st.just(OPTIONS) | st.just([]),
    }),
    value=SENT,
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_whatever_a_column_limits_and_a_model_sends_is_stored_within_or_refused_in_words(
    kind: tuple[str, str], limits: dict[str, Any], value: object
) -> None:
    made = column(type=kind[0], subtype=kind[1], **limits)

    ready, refusal = outcome(made, value)

    assert refusal == "" or refusal.startswith("'Count' ")
    assert json.dumps(ready, allow_nan=False)
    assert not is_refused_by_tables(ready, made.minimum, made.maximum, made.longest)
    assert shown(made, ready) is None or ready is not None


@pytest.mark.parametrize("subtype", ["stars", "progress"])
def test_a_whole_number_may_be_written_with_a_point(subtype: str) -> None:
    """RFC 8259 §6 has one kind of numbers, and some clients write 5 as 5.0."""
    made = column(type="number", subtype=subtype)

    assert (outcome(made, 5.0), outcome(made, 5)) == ((5, ""), (5, ""))
    assert outcome(made, 2.5)[1].startswith("'Count' must be a whole number from 0 to ")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (("selection", ""), "9" * 5_000), (("selection", ""), True), (("selection", ""), 1.5),
        (("selection", "multi"), ["9" * 5_000, "²"]),
        (("text", "link"), "[" * 100_000), (("text", "link"), '{"value":' * 100_000), (("text", "link"), 5),
        (("text", "link"), '{"value": ' + "[" * 500 + "]" * 500 + "}"),
        (("text", "link"), '["value"]'), (("text", "link"), '{"value": ' + "9" * 5_000 + "}"),
        (("text", "link"), '{"title": "x"}'),
    ],
)  # fmt: skip
def test_a_stored_value_that_cannot_be_read_is_shown_as_it_is(kind: tuple[str, str], value: object) -> None:
    """Whoever can write a row could make each reading of the table fail."""
    assert shown(column(type=kind[0], subtype=kind[1], selectionOptions=OPTIONS), value) == value


def test_a_choice_is_found_by_its_number_and_a_link_by_its_address() -> None:
    assert shown(column(type="selection", subtype="", selectionOptions=OPTIONS), "1") == OPTIONS[0]["label"]
    assert shown(column(type="text", subtype="link"), '{"title": "x", "value": "https://h/"}') == "https://h/"


def test_a_choice_of_megabytes_is_refused_in_few_words() -> None:
    """It was folded once for each option."""
    made = column(type="selection", subtype="", selectionOptions=OPTIONS)

    assert len(outcome(made, "é" * 2_000_000)[1]) < 400
