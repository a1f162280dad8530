"""A card of many lines is changed in as many steps as it has lines, and as there are entries; not their product."""

import sys
from collections.abc import Callable

import pytest

from nextcloud_mcp_server.apps.contacts import fields
from nextcloud_mcp_server.apps.contacts.fields import Changes, Contact
from nextcloud_mcp_server.formats.vcard import VCard

CARD = "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:x\r\n{}END:VCARD\r\n"


def steps(work: Callable[[], object]) -> int:
    """Count the calls of functions, those of comparisons and generators too."""
    count = 0

    def counted(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "line",
    [
        "item{0}.EMAIL;TYPE=work:a{0}@x\r\n",
        "item1.EMAIL:a@x\r\n",
        "EMAIL:a{0}@x\r\n",
        "item{0}.X-ABLabel:b\r\n",
    ],
    ids=["groups", "one group", "no group", "labels"],
)
@pytest.mark.parametrize(
    "entry", ["work: a{0}@x", "home: a{0}@x", "a@x", "a b: b{0}@x", "a b: a@x", None], ids=repr
)
def test_twice_the_lines_and_entries_take_twice_the_steps(line: str, entry: str | None) -> None:
    def change(count: int) -> int:
        card = VCard.read(CARD.format("".join(line.format(number) for number in range(count))))
        entries = [] if entry is None else [entry.format(number) for number in range(count)]
        return steps(lambda: fields.apply(card, Changes(emails=entries)))

    assert change(400) < 2.5 * change(200)


def test_a_line_of_which_there_are_two_is_changed_at_its_own_place() -> None:
    card = VCard.read(CARD.format("TEL:12\r\nNOTE:a\r\nTEL:12\r\n"))

    fields.apply(card, Changes(phones=["12", "99"]))

    assert card.text == CARD.format("TEL:12\r\nNOTE:a\r\nTEL:99\r\n")


@pytest.mark.parametrize("value", ["form", "label"])
def test_a_value_is_taken_for_no_label(value: str) -> None:
    card = VCard.read(CARD.format(f"URL;TYPE=x:{value}\r\nURL;TYPE={value}:x\r\n"))

    fields.apply(card, Changes(urls=[f"{value}: x"]))

    assert Contact.of(card).urls == [f"{value}: x"]
