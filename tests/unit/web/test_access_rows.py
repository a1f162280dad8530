from collections.abc import Iterable
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextcloud_mcp_server.auth.scopes import SCOPES, is_writing
from nextcloud_mcp_server.declarations.apps import APPS
from nextcloud_mcp_server.web.access_rows import (
    FIELD,
    FIRST_ROWS,
    Level,
    Row,
    first_and_more,
    rows_of,
    scopes_in,
)

ALL = frozenset(SCOPES)
APP_NAMES = {scope.partition(":")[0] for scope in SCOPES}
scopes = st.frozensets(st.sampled_from(SCOPES))
values = st.lists(
    st.one_of(st.sampled_from([*Level, "read change", "notes:write", "on", ""]), st.text()), max_size=2
)
forms = st.dictionaries(
    st.one_of(
        st.sampled_from([f"{FIELD}{app}" for app in APP_NAMES]), st.sampled_from(["allow", "notes", "answer"])
    ),
    values,
)


def levels(row: Row) -> list[str]:
    return [choice.level for choice in row.choices]


def set_to(rows: Iterable[Row]) -> dict[str, str]:
    return {row.app: choice.level for row in rows for choice in row.choices if choice.chosen}


def sent(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Return what a browser sends for the rows as they are shown; it leaves out what cannot be chosen."""
    return {
        row.field: [choice.level for choice in row.choices if choice.chosen and not choice.closed]
        for row in rows
    }


@given(form=forms, offered=scopes)
def test_a_form_never_allows_more_than_its_rows_say_or_than_is_offered(
    form: dict[str, list[str]], offered: frozenset[str]
) -> None:
    allowed = scopes_in(form, offered)

    assert allowed <= offered
    for scope in allowed:
        app = scope.partition(":")[0]
        (value,) = form[f"{FIELD}{app}"]
        assert value in ({"change", "change-only"} if is_writing(scope) else {"read", "change"})


@given(offered=scopes, needed=scopes, granted=scopes)
def test_nothing_is_chosen_beforehand_but_what_is_needed_or_allowed_already(
    offered: frozenset[str], needed: frozenset[str], granted: frozenset[str]
) -> None:
    asked = (needed | granted) & offered
    rows = rows_of(offered, chosen=asked, needed=needed, granted=granted)

    assert {
        scope for row in rows for choice in row.choices if choice.chosen for scope in choice.scopes
    } == asked
    # The page sends what it shows, however often it is shown again.
    assert scopes_in(sent(rows), offered) == asked
    assert all(sum(choice.chosen for choice in row.choices) == 1 for row in rows)


@given(offered=scopes, chosen=scopes, granted=scopes)
def test_what_is_allowed_already_cannot_be_set_to_less(
    offered: frozenset[str], chosen: frozenset[str], granted: frozenset[str]
) -> None:
    for row in rows_of(offered, chosen=chosen | granted, granted=granted):
        of_app = {scope for scope in granted & offered if scope.startswith(f"{row.app}:")}
        assert all(of_app <= {*choice.scopes} for choice in row.choices if not choice.closed)
        assert any(not choice.closed for choice in row.choices)


@given(chosen=scopes)
def test_every_choice_of_scopes_can_be_shown_and_sent(chosen: frozenset[str]) -> None:
    assert scopes_in(sent(rows_of(ALL, chosen=chosen)), ALL) == chosen


@pytest.mark.parametrize(
    ("offered", "chosen", "needed", "shown"),
    [
        ({"notes:read", "notes:write"}, set[str](), set[str](), ["off", "read", "change"]),
        ({"mail:read"}, set[str](), set[str](), ["off", "read"]),
        ({"notes:write"}, set[str](), set[str](), ["off", "change-only"]),
        # What is needed, and nothing besides: without reading.
        ({"notes:read", "notes:write"}, {"notes:write"}, {"notes:write"}, ["off", "change-only", "change"]),
        # On the account page it can be changed to anything.
        (
            {"notes:read", "notes:write"},
            {"notes:write"},
            set[str](),
            ["off", "read", "change-only", "change"],
        ),
    ],
)
def test_a_row_has_the_choices_that_its_app_has(
    offered: set[str], chosen: set[str], needed: set[str], shown: list[str]
) -> None:
    (row,) = rows_of(frozenset(offered), chosen=frozenset(chosen), needed=frozenset(needed))

    assert levels(row) == shown


def test_what_a_call_needs_in_addition_to_what_is_allowed_is_chosen() -> None:
    granted = frozenset({"notes:read", "files:read"})
    needed = frozenset({"notes:write"})

    rows = rows_of(ALL, chosen=granted | needed, needed=needed, granted=granted)

    assert {app: level for app, level in set_to(rows).items() if level != "off"} == {
        "notes": "change",
        "files": "read",
    }
    assert [(row.app, row.granted) for row in rows if row.granted] == [("notes", "read"), ("files", "read")]


def test_what_a_call_needs_comes_first_and_the_rest_apart() -> None:
    rows = rows_of(ALL, chosen=frozenset({"talk:read"}), needed=frozenset({"talk:read"}))

    first, more = first_and_more(rows)

    assert [row.app for row in first] == ["talk"]
    assert len(more) == len(APP_NAMES) - 1
    assert "talk" not in [row.app for row in more]


def test_where_no_call_waits_the_first_apps_are_shown_and_the_rest_apart() -> None:
    first, more = first_and_more(rows_of(ALL, chosen=frozenset()))

    assert len(first) == FIRST_ROWS
    assert len(more) == len(APP_NAMES) - FIRST_ROWS


def test_a_field_that_comes_twice_chooses_nothing() -> None:
    """Of two, an attacker may have added either."""
    assert scopes_in({f"{FIELD}notes": ["off", "change"]}, ALL) == frozenset()


def test_each_app_has_at_most_one_scope_to_read_and_one_to_change() -> None:
    """A row has no more choices, so nothing else could be chosen alone."""
    for app in APPS:
        kinds = [is_writing(scope.name) for scope in app.scopes]
        assert len(kinds) == len(set(kinds)), app.name
        assert {scope.name.partition(":")[0] for scope in app.scopes} <= {app.name}


def test_each_app_with_scopes_has_a_name_and_an_icon() -> None:
    assert [app.name for app in APPS if app.scopes and not (app.title and app.icon)] == []
    icons = [app.icon for app in APPS if app.icon]
    assert len(set(icons)) == len(icons)


def test_few_scopes_are_told_apart_in_all_their_combinations() -> None:
    few = ("notes:read", "notes:write", "mail:read", "talk:write")

    for chosen in chain.from_iterable(combinations(few, count) for count in range(len(few) + 1)):
        rows = rows_of(frozenset(few), chosen=frozenset(chosen))
        assert scopes_in(sent(rows), frozenset(few)) == set(chosen)
