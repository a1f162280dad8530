import gc
import random

import pytest

from nextcloud_mcp_server.apps.contacts.fields import Changes, Contact, apply, revise
from nextcloud_mcp_server.formats.vcard import VCard

PHOTO = "PHOTO;ENCODING=b;TYPE=JPEG:" + "/9j/4AAQSkZJRgABAQAAAQABAAD\r\n 2wBDAAEBAQEBAQEB" * 20
CARD = (
    "BEGIN:VCARD\r\n"
    "VERSION:3.0\r\n"
    "PRODID:-//Sabre//Sabre VObject 4.5//EN\r\n"
    "UID:c1\r\n"
    "FN:Zoë Müller\r\n"
    "N:Müller;Zoë;;Dr.;\r\n"
    'item1.TEL;type="cell";PREF=1;X-EVIL="a;b:c":+49 171\r\n  555\r\n'
    "item1.X-ABLabel:_$!<Mobile>!$_\r\n"
    "TEL;TYPE=HOME,VOICE:+49 30 1\r\n"
    "EMAIL;type=home:zoe@example.test\r\n"
    "ORG:Acme\\, Inc.;Research\r\n"
    "ADR;TYPE=HOME:;;Main St 1;Berlin;;10115;Germany\r\n"
    "X-SOCIALPROFILE;TYPE=mastodon:https://social.example/@zoe\r\n"
    f"{PHOTO}\r\n"
    "NOTE:a long note that is folded in a place where nobody else would\r\n"
    "  fold it\\, with a comma\r\n"
    "REV:2020-01-01T00:00:00Z\r\n"
    "END:VCARD\r\n"
)
V4 = (
    "BEGIN:VCARD\nVERSION:4.0\nUID:urn:uuid:1\nFN:Ann\nN:;Ann;;;\n"
    "TEL;VALUE=uri;TYPE=cell:tel:+49-171-5\nANNIVERSARY:20090808T1430-0500\nBDAY:--0203\nEND:VCARD\n"
)


def changed(card: str, **fields: object) -> tuple[list[str], list[str]]:
    """Give the lines that went and those that came; all others must be where they were."""
    vcard = VCard.read(card)
    apply(vcard, Changes(**fields))  # pyright: ignore[reportArgumentType]  # each test names its fields
    before, after = card.splitlines(keepends=True), vcard.text.splitlines(keepends=True)
    gone = [line for line in before if line not in after]
    come = [line for line in after if line not in before]
    assert [line for line in before if line not in gone] == [line for line in after if line not in come]
    return gone, come


def test_a_card_that_is_read_and_written_is_the_same_byte_for_byte() -> None:
    for text in (CARD, V4, "", "BEGIN:VCARD\r\n\r\nNO COLON\r\n continued\r\nA;;;;;\nEND:VCARD\r\n"):
        assert VCard.read(text).text == text


def test_unreadable_bytes_survive_too() -> None:
    draw = random.Random(5)

    for _ in range(200):
        text = "".join(draw.choices('A1.;:=",\\ \t\r\nä', k=60)) + "\n"
        assert VCard.read(text).text == text


def test_a_changed_number_leaves_photo_groups_parameters_and_folds_alone() -> None:
    """U65. U68."""
    gone, come = changed(CARD, phones=["mobile: +49 171 555", "home: +49 30 22"])

    assert gone == ["TEL;TYPE=HOME,VOICE:+49 30 1\r\n"]
    assert come == ["TEL;TYPE=HOME,VOICE:+49 30 22\r\n"]


def test_entries_that_are_given_as_they_were_read_change_nothing() -> None:
    contact = Contact.of(VCard.read(CARD))

    nothing = changed(
        CARD,
        name=contact.name,
        org=contact.org,
        emails=contact.emails,
        phones=contact.phones,
        addresses=contact.addresses,
        note=contact.note,
        categories=contact.categories,
        birthday=contact.birthday,
    )

    assert nothing == ([], [])
    assert contact.phones == ["mobile: +49 171 555", "home: +49 30 1"]
    assert contact.addresses == ["home: Main St 1; Berlin; ; 10115; Germany"]
    assert contact.org == "Acme, Inc.; Research"


def test_a_phone_number_of_version_4_is_shown_without_its_scheme_and_anniversaries_stay() -> None:
    """B97."""
    contact = Contact.of(VCard.read(V4))

    gone, come = changed(V4, phones=["cell: +49 172 6"])

    assert contact.phones == ["cell: +49-171-5"]
    assert gone == ["TEL;VALUE=uri;TYPE=cell:tel:+49-171-5\n"]
    assert come == ["TEL;VALUE=uri;TYPE=cell:tel:+491726\n"]


def test_an_organisation_is_stored_as_one_text() -> None:
    """U64."""
    assert changed(CARD, org="Acme")[1] == ["ORG:Acme\r\n"]
    assert changed(V4, org="Müller, Söhne; IT")[1] == ["ORG:Müller\\, Söhne;IT\n"]


def test_a_removed_entry_takes_its_label_along() -> None:
    gone, come = changed(CARD, phones=[], addresses=[], org="", note="")

    assert [line.partition(":")[0].partition(";")[0] for line in gone if not line.startswith(" ")] == [
        "item1.TEL", "item1.X-ABLabel", "TEL", "ORG", "ADR", "NOTE",
    ]  # fmt: skip
    assert come == []


def test_the_display_name_and_its_parts_follow_each_other() -> None:
    assert changed(CARD, family_name="Meyer")[1] == ["FN:Zoë Meyer\r\n", "N:Meyer;Zoë;;Dr.;\r\n"]
    assert changed(CARD, name="Zoë van Meyer")[1] == ["FN:Zoë van Meyer\r\n", "N:Meyer;Zoë van;;;\r\n"]
    assert changed(V4, name="Cher")[1] == ["FN:Cher\n", "N:;Cher;;;\n"]


def test_a_display_name_of_its_own_is_not_touched_with_the_parts() -> None:
    nick = CARD.replace("FN:Zoë Müller", "FN:Aunt Zoë")

    assert changed(nick, given_name="Zoe")[1] == ["N:Müller;Zoe;;Dr.;\r\n"]
    assert changed(nick, name="Aunt Zoe")[1] == ["FN:Aunt Zoe\r\n"]


@pytest.mark.parametrize(
    ("label", "line"),
    [
        ("", "EMAIL:new@x"),
        ("work: ", "EMAIL;TYPE=work:new@x"),
        ("mobile: ", "EMAIL;TYPE=cell:new@x"),
        ("Holiday home, sea: ", "item2.EMAIL:new@x"),
    ],
)
def test_a_new_entry_gets_the_label_it_is_given(label: str, line: str) -> None:
    gone, come = changed(CARD, emails=["home: zoe@example.test", f"{label}new@x"])

    assert gone == []
    named = {"item2.X-ABLabel:Holiday home\\, sea\r\n"} if "sea" in label else set[str]()
    assert set(come) == {f"{line}\r\n"} | named


@pytest.mark.parametrize(
    ("entry", "come"),
    [
        ("work: +49 171 555", ["item1.X-ABLabel:work\r\n"]),
        ("home,fax: +49 30 1", ["TEL;TYPE=home;TYPE=fax:+49 30 1\r\n"]),
        ("at the sea: +49 30 1", ["item2.TEL:+49 30 1\r\n", "item2.X-ABLabel:at the sea\r\n"]),
    ],
)
def test_an_entry_with_another_label_keeps_its_value(entry: str, come: list[str]) -> None:
    others = ["mobile: +49 171 555", "home: +49 30 1"]
    kept = [one for one in others if one.partition(": ")[2] != entry.partition(": ")[2]]

    assert changed(CARD, phones=[*kept, entry])[1] == come


def test_a_relabelled_entry_keeps_its_other_parameters() -> None:
    card = CARD.replace("EMAIL;type=home:", 'EMAIL;type=home;PREF=1;X-A="b;c":')

    assert changed(card, emails=["work: zoe@example.test"])[1] == [
        'EMAIL;TYPE=work;PREF=1;X-A="b;c":zoe@example.test\r\n'
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("BDAY:19900517", "1990-05-17"),
        ("BDAY;VALUE=date-time:1990-05-17T00:00:00Z", "1990-05-17"),
        ("BDAY:--0517", "--05-17"),
        ("BDAY;X-APPLE-OMIT-YEAR=1604:1604-05-17", "--05-17"),
        ("BDAY;VALUE=text:circa 1800", "circa 1800"),
        ("X-NONE:", ""),
    ],
)
def test_a_birthday_in_any_form_never_breaks_a_card(line: str, shown: str) -> None:
    """U67."""
    assert Contact.of(VCard.read(f"BEGIN:VCARD\r\n{line}\r\nEND:VCARD\r\n")).birthday == shown


def test_a_birthday_is_written_as_the_version_has_it() -> None:
    assert changed(CARD, birthday="1990-05-17")[1] == ["BDAY;VALUE=date:1990-05-17\r\n"]
    assert changed(CARD, birthday="--05-17")[1] == ["BDAY;VALUE=date;X-APPLE-OMIT-YEAR=1604:1604-05-17\r\n"]
    assert changed(V4, birthday="1990-05-17")[1] == ["BDAY:19900517\n"]
    assert changed(V4, birthday="--05-17")[1] == ["BDAY:--0517\n"]
    assert changed(V4, birthday="") == (["BDAY:--0203\n"], [])


def test_categories_become_one_line() -> None:
    card = V4.replace("END", "CATEGORIES:a\nCATEGORIES:b\\,c\nEND")

    assert Contact.of(VCard.read(card)).categories == ["a", "b,c"]
    assert changed(card, categories=["x", "b,c"])[1] == ["CATEGORIES:x,b\\,c\n"]
    assert changed(V4, categories=["x"])[1] == ["CATEGORIES:x\n"]


def test_a_long_value_is_folded_between_characters() -> None:
    vcard = VCard.read(V4)

    apply(vcard, Changes(note="ü" * 100 + "\n;"))

    added = vcard.text.replace(V4[: V4.index("END")], "").splitlines()
    assert all(len(line.encode()) <= 75 for line in added)
    assert Contact.of(VCard.read(vcard.text)).note == "ü" * 100 + "\n;"


def test_a_revision_is_dated_the_way_it_was_and_only_where_there_is_one() -> None:
    for card, expected in ((CARD, "REV:2026-11-27T21:13:08Z\r\n"), (V4, "")):
        vcard = VCard.read(card)
        revise(vcard, "20261127T211308Z")
        assert expected in vcard.text
    old = VCard.read("BEGIN:VCARD\r\nREV:20200101T000000Z\r\nEND:VCARD\r\n")
    revise(old, "20261127T211308Z")
    assert "REV:20261127T211308Z\r\n" in old.text


def test_a_card_of_version_2_is_read() -> None:
    card = VCard.read(
        "BEGIN:VCARD\r\nVERSION:2.1\r\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;Z=\r\n=C3=AB\r\n"
        "NOTE;QUOTED-PRINTABLE:one=\r\n=20two\r\nTEL;HOME:1\r\nEND:VCARD\r\n"
    )

    contact = Contact.of(card)

    assert contact.note == "one two"
    assert contact.phones == ["home: 1"]


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ("N:Müller;Zoë;;;", "Zoë Müller"),
        ("ORG:Acme", "Acme"),
        ("EMAIL;TYPE=work:a@b", "a@b"),
        ("NOTE:x", ""),
        ("N:", ""),
        ("ADR:;;;;;;", ""),
    ],
)
def test_a_card_without_a_display_name_has_the_next_best(lines: str, name: str) -> None:
    assert Contact.of(VCard.read(f"BEGIN:VCARD\r\n{lines}\r\nEND:VCARD\r\n")).name == name


def test_only_one_whole_card_counts_as_one() -> None:
    assert VCard.read(V4).whole
    for broken in ("", V4 * 2, V4.replace("END:VCARD\n", ""), V4.replace("FN:Ann", "no line"), "FN:x\n"):
        assert not VCard.read(broken).whole


def test_a_card_that_is_no_longer_used_is_free_at_once() -> None:
    """Its places refer to each other: thousands of them waited for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        card = VCard.read(V4)
        card.replace(next(card.every("FN")), "Other")
        del card
        assert gc.collect() == 0
    finally:
        gc.enable()
