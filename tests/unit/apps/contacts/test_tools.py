import time
from typing import Any

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.contacts.tools import contacts
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.tools import answer
from tests.dav_fakes import account_in, call_in

CARD = (
    "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:u1\r\nFN:Ann\u202e Other\r\nN:Other;Ann;;;\r\nNICKNAME:Annie\r\n"
    "ORG:Acme\r\nTITLE:Boss\r\nEMAIL:ann@x\r\nTEL;TYPE=CELL:+49 171 55\r\nADR:;;Main St;Ulm;;1;DE\r\n"
    "URL:https://x\r\nBDAY:1990-01-02\r\nNOTE:n\r\nCATEGORIES:c\r\nKIND:group\r\nX-A:1\r\n"
    "PHOTO;ENCODING=b:AAAABBBBCCCC\r\nREV:20200101T000000Z\r\nEND:VCARD\r\n"
)


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


def store(sandbox: Sandbox, name: str, text: str) -> None:
    sandbox.state.users["alice"].address_books["contacts"].put(name, text, 0)


async def call(account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    return await call_in(contacts, account, f"nc_contacts_{tool}", **arguments)


async def test_a_contact_is_made_found_read_changed_and_deleted(alice: Account) -> None:
    """U64."""
    made = await call(
        alice,
        "create_contact",
        name="Bo Diddley",
        org="Acme",
        title="Boss",
        emails=["work: bo@x.org"],
        phones=["+49 (30) 123-456"],
        addresses=["home: Main St 1; Berlin; ; 10115; Germany"],
        urls=["https://bo.example/a,b;c"],
        birthday="--02-29",
        note="one\ntwo",
        categories=["band"],
    )

    [row] = (await call(alice, "search_contacts", query="acme bo")).contacts
    by_number = await call(alice, "search_contacts", query="30 123 456")
    read = await call(alice, "get_contact", book=row.book, contact_id=row.id)
    changed = await call(
        alice, "update_contact", book=row.book, contact_id=row.id, etag=read.etag, family_name="Didley"
    )
    gone = await call(alice, "delete_contact", book=row.book, contact_id=row.id, etag=changed.etag)

    assert (row.id, row.emails, row.phones, row.org) == (
        made.id, ["work: bo@x.org"], ["+49 (30) 123-456"], "Acme",
    )  # fmt: skip
    assert [one.id for one in by_number.contacts] == [made.id]
    shown = read.model_dump(exclude_none=True, exclude={"uid", "etag", "id", "book", "emails", "phones"})
    assert shown == {
        "name": "Bo Diddley", "given_name": "Bo", "family_name": "Diddley", "org": "Acme", "title": "Boss",
        "addresses": ["home: Main St 1; Berlin; ; 10115; Germany"], "urls": ["https://bo.example/a,b;c"],
        "birthday": "--02-29", "note": "one\ntwo", "categories": ["band"],
    }  # fmt: skip
    assert (changed.name, changed.family_name) == ("Bo Didley", "Didley")
    assert "cannot be undone" in gone.undo
    again = await call(alice, "create_contact", vcard=gone.vcard)
    assert (await call(alice, "get_contact", book="contacts", contact_id=again.id)).uid == read.uid


async def test_all_books_are_searched_unless_one_is_named(alice: Account) -> None:
    books = (await call(alice, "list_address_books")).address_books

    everywhere = await call(alice, "search_contacts")
    here = await call(alice, "search_contacts", book="contacts")

    assert (books[0].id, books[0].writable) == ("contacts", True)
    assert [row.name for row in everywhere.contacts] == [
        "Alice Example", "Bob Builder", "Chandra Rao", "Zoë Müller",
    ]  # fmt: skip
    assert ([row.name for row in here.contacts], here.total) == (["Chandra Rao", "Zoë Müller"], 2)


async def test_following_the_cursor_gives_every_contact_once(alice: Account, sandbox: Sandbox) -> None:
    for number in range(5):
        store(sandbox, f"{number}.vcf", CARD.replace("UID:u1", f"UID:{number}"))

    seen: list[str] = []
    page = await call(alice, "search_contacts", book="contacts", limit=3)
    seen += [row.id for row in page.contacts]
    while page.cursor:
        page = await call(alice, "search_contacts", book="contacts", limit=3, cursor=page.cursor)
        seen += [row.id for row in page.contacts]

    assert len(seen) == len(set(seen)) == page.total == 7
    with pytest.raises(errors.InvalidInput, match="cursor"):
        await call(alice, "search_contacts", cursor="abc")


async def test_rows_that_do_not_fit_wait_for_the_next_page(alice: Account, sandbox: Sandbox) -> None:
    for number in range(120):
        email = f"EMAIL:{'x' * 400}{number}@x\r\n"
        store(
            sandbox, f"{number}.vcf", CARD.replace("UID:u1", f"UID:{number}").replace("NOTE", f"{email}NOTE")
        )

    page = await call(alice, "search_contacts", book="contacts", limit=200)

    assert page.cursor is not None
    assert len(page.contacts) < page.total == 122
    assert answer.result(page)


async def test_a_contact_is_shown_with_all_it_has_and_names_what_it_keeps(
    alice: Account, sandbox: Sandbox
) -> None:
    store(sandbox, "a b.vcf", CARD.replace("NOTE:n", "NOTE:" + "n" * 30_000))
    store(sandbox, "web.vcf", "BEGIN:VCARD\r\nPHOTO;VALUE=uri:https://x/p.png\r\nno line\r\nEND:VCARD\r\n")

    read = await call(alice, "get_contact", book="contacts", contact_id="a b.vcf")
    broken = await call(alice, "get_contact", book="contacts", contact_id="web.vcf")
    rows = {row.id: row for row in (await call(alice, "search_contacts", book="contacts")).contacts}

    assert (read.nickname, read.kind, read.birthday, read.other) == (
        "Annie", "group", "1990-01-02", ["X-A", "REV"],
    )  # fmt: skip
    assert (len(read.note), read.note_truncated, read.photo) == (20_000, True, "a picture of about 9 bytes")
    assert (broken.unreadable, broken.photo, broken.name) == (True, "at an address on the web", "")
    assert rows["web.vcf"].unreadable
    assert rows["a b.vcf"].name == "Ann\u202e Other"


async def test_a_long_card_is_not_repeated_when_it_is_deleted(alice: Account, sandbox: Sandbox) -> None:
    store(sandbox, "a.vcf", CARD.replace("AAAA", "A" * 8000))
    read = await call(alice, "get_contact", book="contacts", contact_id="a.vcf")

    gone = await call(alice, "delete_contact", book="contacts", contact_id="a.vcf", etag=read.etag)

    assert (gone.vcard, gone.undo) == (
        None, "Nextcloud has no trash for contacts, so this cannot be undone.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either a whole 'vcard' or fields"),
        ({"name": "x", "vcard": CARD}, "either"),
        ({"name": " "}, "'name' is empty"),
        ({"note": "x"}, "needs a 'name'"),
        ({"name": "a\nb"}, "line break"),
        ({"name": "a", "categories": ["a\tb"]}, "line break"),
        ({"name": "a", "emails": ["nobody"]}, "'emails' must be"),
        ({"name": "a", "phones": [" "]}, "none of them empty"),
        ({"name": "a", "phones": ["1"] * 51}, "up to 50"),
        ({"name": "a", "birthday": "17.5.1990"}, "'birthday' must be"),
        ({"name": "a", "birthday": "1991-02-29"}, "'birthday' must be"),
        ({"vcard": CARD * 2}, "one whole vCard"),
        ({"vcard": CARD.replace("VERSION:3.0", "VERSION:2.1")}, "one whole vCard"),
        ({"phone": "1"}, "'phone' is not an argument of this tool"),
        ({"organization": "Acme"}, "is not an argument"),
    ],
)
async def test_what_makes_no_contact_is_refused_with_the_reason(
    alice: Account, arguments: dict[str, object], words: str
) -> None:
    """U64: a field under another name is refused by name, never dropped."""
    with pytest.raises(errors.InvalidInput, match=words):
        await call(alice, "create_contact", **arguments)


async def test_a_change_of_nothing_is_refused(alice: Account) -> None:
    with pytest.raises(errors.InvalidInput, match="Nothing to change"):
        await call(alice, "update_contact", book="contacts", contact_id="a.vcf", etag="e")


async def test_a_value_written_in_other_letters_is_changed_where_it_stands(
    sandbox: Sandbox, alice: Account
) -> None:
    store(sandbox, "ann.vcf", CARD.replace("URL:", "URL;X-KEPT=1:").replace("Main St", "main st"))
    etag = (await call(alice, "get_contact", book="contacts", contact_id="ann.vcf")).etag

    await call(
        alice, "update_contact", book="contacts", contact_id="ann.vcf", etag=etag, urls=["https://X"],
        addresses=["Main St; Ulm; ; 1; DE"], emails=["Ann@x"], phones=["+491  7155"],
    )  # fmt: skip

    text = sandbox.state.users["alice"].address_books["contacts"].cards["ann.vcf"].data
    changed = ("URL;X-KEPT=1:https://X\r\n", "ADR:;;Main St;Ulm;;1;DE\r\n", "EMAIL:Ann@x\r\n")
    assert all(line in text for line in (*changed, "TEL;TYPE=CELL:+49 171 55\r\n"))


async def test_an_object_of_several_cards_is_left_alone(sandbox: Sandbox, alice: Account) -> None:
    """Changing the e-mail addresses would take those of the second user away."""
    store(sandbox, "two.vcf", CARD + CARD.replace("u1", "u2"))
    found = await call(alice, "get_contact", book="contacts", contact_id="two.vcf")

    with pytest.raises(errors.InvalidInput, match="more than one card"):
        await call(
            alice, "update_contact", book="contacts", contact_id="two.vcf", etag=found.etag, emails=["new@x"]
        )


@pytest.mark.parametrize(
    "given", [{"name": "x", "note": "a\x0bb"}, {"vcard": CARD.replace("NOTE:n", "NOTE:\x1b")}]
)
async def test_control_characters_do_not_get_into_a_card(alice: Account, given: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidInput, match="control characters"):
        await call(alice, "create_contact", **given)


async def test_a_card_of_very_many_lines_is_read_in_no_time_and_not_changed(
    sandbox: Sandbox, alice: Account
) -> None:
    """Finding the label of each number anew would take minutes, in which no one else is served."""
    numbers = "".join(f"i{i}.TEL:{i}\r\ni{i}.X-ABLABEL:l{i}\r\n" for i in range(4_000))
    store(sandbox, "many.vcf", CARD.replace("URL:", f"{numbers}URL:"))
    begun = time.process_time()

    [row] = (await call(alice, "search_contacts", query="l3999: 3999")).contacts
    with pytest.raises(errors.TooLarge):
        answer.result(await call(alice, "get_contact", book=row.book, contact_id=row.id))
    etag = sandbox.state.users["alice"].address_books["contacts"].cards["many.vcf"].etag
    with pytest.raises(errors.InvalidInput, match="more than are changed here"):
        await call(alice, "update_contact", book=row.book, contact_id=row.id, etag=etag, note="x")

    assert time.process_time() - begun < 30
