import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextcloud_mcp_server.errors import ServerFault
from nextcloud_mcp_server.nextcloud import outcome
from nextcloud_mcp_server.nextcloud.outcome import NEW, Part, compare

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=3)
    | st.lists(st.text(max_size=2), max_size=2)
)


@settings(max_examples=200)
@given(st.lists(st.tuples(VALUES, VALUES), max_size=4))
def test_what_is_stored_as_it_was_sent_needs_no_word(pairs: list[tuple[object, object]]) -> None:
    parts = [Part(f"part {number}", sent, sent, before) for number, (sent, before) in enumerate(pairs)]

    assert compare("Deck", parts) is None


@settings(max_examples=200)
@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4))
def test_a_write_that_changed_nothing_is_never_a_success(sent: list[str]) -> None:
    parts = [Part(f"part {number}", value, "before", "before") for number, value in enumerate(sent)]

    with pytest.raises(
        ServerFault, match="Deck answered as if it were done, but changed nothing: 'part 0' is"
    ):
        compare("Deck", parts)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (None, 0),
        (0, None),
        (None, False),
        (True, None),
        ("a", "a "),
        ("", 0),
        (["a"], []),
        ([], False),
        (1.234, 1.23),
    ],
)
def test_nothing_is_no_0_and_spaces_count(sent: object, stored: object) -> None:
    assert compare("Tables", [Part("Betrag", sent, stored)]) is not None


@pytest.mark.parametrize(
    ("sent", "stored"), [(None, ""), ("", []), ([], None), (["b", "a"], ["a", "b"]), (3, 3.0)]
)
def test_apps_have_several_kinds_of_nothing_and_lists_without_an_order(sent: object, stored: object) -> None:
    assert compare("Tables", [Part("Betrag", sent, stored)]) is None


def test_a_difference_is_told_in_short_and_visibly() -> None:
    parts = [
        Part("title", "x" * 100, "\u202eb", "a"),
        *(Part(str(number), True, ["c", "d"], NEW) for number in range(11)),
    ]

    told = compare("Deck", parts)

    assert told == (
        f"Deck did not store all of it as it was sent: 'title' is “<U+202E>b” instead of “{'x' * 59}…”; "
        + "; ".join(f"'{number}' is “c”, “d” instead of true" for number in range(9))
        + "; and 2 more."
    )


def test_one_part_that_changed_makes_it_a_success_in_part() -> None:
    parts = [Part("title", "new", "new", "old"), Part("done", True, False, False)]

    assert (
        compare("Deck", parts)
        == "Deck did not store all of it as it was sent: 'done' is false instead of true."
    )


def test_long_texts_are_compared_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Normalising two texts of four megabytes held the event loop for 0.8 seconds."""
    normalised = list[str]()

    def watched(text: str) -> str:
        normalised.append(text)
        return text

    monkeypatch.setattr(outcome, "composed", watched)
    long = "e\u0301" * 100_000

    assert Part("text", long, long).as_sent
    assert not Part("text", long, f"{long}x").as_sent
    assert "instead of" in str(Part("text", long, f"{long}x"))
    assert normalised == []
