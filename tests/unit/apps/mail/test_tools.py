from datetime import UTC, datetime
from typing import Any

import pytest

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.mail.tools import mail
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.sandbox.app import Sandbox
from nextcloud_mcp_server.sandbox.apps.mail.store import MailStore, StoredMailbox
from nextcloud_mcp_server.tools import answer
from nextcloud_mcp_server.tools.documents import Documents
from tests.dav_fakes import account_in, call_with
from tests.document_files import read_here

# Later than every message of the sandbox, whose times are counted back from now.
MOMENT = 4_102_444_800
BOB = ("Bob Builder", "bob@example.test")


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo()


@pytest.fixture
def alice(sandbox: Sandbox) -> Account:
    return account_in(sandbox)


@pytest.fixture
def store(sandbox: Sandbox) -> MailStore:
    return sandbox.state.store(MailStore)


@pytest.fixture
def inbox(store: MailStore) -> StoredMailbox:
    return store.mailboxes[0]


async def call(account: Account, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - each has its own
    documents = Documents(read_here)
    return await call_with({"documents": documents}, mail, account, f"nc_mail_{tool}", **arguments)


async def test_the_mailboxes_of_the_only_account_come_at_once(alice: Account, store: MailStore) -> None:
    store.accounts[0].aliases.append("me@example.test")

    found = await call(alice, "list_mailboxes")

    assert [(row.id, row.email, row.aliases) for row in found.accounts] == [
        ("1", "alice@example.test", ["me@example.test"])
    ]
    assert [(row.id, row.name, row.role, row.unread) for row in found.mailboxes] == [
        ("1", "INBOX", "inbox", 1),
        ("2", "Sent", "sent", 0),
    ]
    assert (found.account_id, found.total, found.cursor) == ("1", 2, None)


async def test_of_several_accounts_one_is_chosen(alice: Account, store: MailStore) -> None:
    store.add_mailbox(store.add_account("alice", "work@example.test"), "Projects/2026")

    accounts = await call(alice, "list_mailboxes")
    one = await call(alice, "list_mailboxes", account_id=2)

    assert ([row.email for row in accounts.accounts], accounts.mailboxes) == (
        ["alice@example.test", "work@example.test"],
        None,
    )
    assert ([(row.name, row.role) for row in one.mailboxes], one.accounts) == (
        [("Projects/2026", None)],
        None,
    )


async def test_many_mailboxes_come_in_pages(alice: Account, store: MailStore) -> None:
    for number in range(300):
        store.add_mailbox(store.accounts[0], f"{number} {'n' * 250}")

    first = await call(alice, "list_mailboxes")
    seen, page = [*first.mailboxes], first
    while page.cursor is not None:
        page = await call(alice, "list_mailboxes", cursor=page.cursor)
        seen += page.mailboxes

    assert answer.result(first)
    assert len({row.id for row in seen}) == len(seen) == first.total == 302


@pytest.mark.parametrize(
    ("filters", "subjects"),
    [
        ({}, ["Invoice 4711", "Boxes"]),
        ({"query": "invoice"}, ["Invoice 4711"]),
        ({"query": "8 January"}, ["Boxes"]),
        ({"query": "is:unread"}, []),
        ({"sender": "garden.example"}, ["Invoice 4711"]),
        ({"sender": "garden", "query": "boxes"}, []),
        ({"unread": True}, ["Invoice 4711"]),
        ({"starred": True}, []),
    ],
)
async def test_messages_are_found_newest_first(
    alice: Account, filters: dict[str, object], subjects: list[str]
) -> None:
    found = await call(alice, "list_messages", mailbox_id=1, **filters)

    assert [row.subject for row in found.messages] == subjects
    assert found.cursor is None


async def test_a_message_in_a_list_says_who_sent_it_and_how_it_begins(alice: Account) -> None:
    [invoice, boxes] = (await call(alice, "list_messages", mailbox_id=1)).messages

    assert invoice.sender == "Kestrel Garden Centre <hello@garden.example.test>"
    assert (invoice.unread, invoice.attachments, invoice.starred) == (True, True, None)
    assert (boxes.unread, boxes.attachments, boxes.preview[:8]) == (None, None, "Hi Alice")


async def test_messages_of_one_second_are_each_given_once(
    alice: Account, store: MailStore, inbox: StoredMailbox
) -> None:
    for number in range(70):
        store.add(inbox, f"{number}", BOB, MOMENT - number // 30, "x")

    page = await call(alice, "list_messages", mailbox_id=1, limit=20, sender="bob builder")
    seen = [*page.messages]
    while page.cursor is not None:
        page = await call(
            alice, "list_messages", mailbox_id=1, limit=20, sender="bob builder", cursor=page.cursor
        )
        seen += page.messages

    assert len({row.id for row in seen}) == len(seen) == 71


async def test_a_flood_in_one_second_does_not_keep_the_list_from_ending(
    alice: Account, store: MailStore, inbox: StoredMailbox
) -> None:
    for number in range(120):
        store.add(inbox, f"{number}", BOB, MOMENT, "x")
    store.add(inbox, "before", BOB, MOMENT - 1, "x")

    page = await call(alice, "list_messages", mailbox_id=1, limit=50, sender="bob builder")
    seen = [*page.messages]
    while page.cursor is not None:
        page = await call(
            alice, "list_messages", mailbox_id=1, limit=50, sender="bob builder", cursor=page.cursor
        )
        seen += page.messages

    assert (seen[50].subject, len({row.id for row in seen})) == ("before", len(seen))


async def test_a_plain_message_is_given_as_it_was_written(alice: Account) -> None:
    read = await call(alice, "get_message", message_id=1)

    assert read.content == (
        "Hi Alice,\n\nthe boxes come on 8 January, see https://boxes.example.test/4?a=1&b=2\n\n-- \nBob\n"
    )
    assert (read.sender, read.reply_to) == ("Bob Builder <bob@example.test>", None)
    assert (read.to, read.cc) == (["Alice Example <alice@example.test>"], None)
    assert (read.unread, read.attachments, read.note) == (None, None, None)


async def test_a_text_with_several_signatures_is_given_as_it_was_written(
    alice: Account, store: MailStore, inbox: StoredMailbox
) -> None:
    text = "One\n-- \nTwo\n-- \nThree\n"
    made = store.add(inbox, "Subject", BOB, MOMENT, text)

    read = await call(alice, "get_message", message_id=made.id)

    assert read.content == text


async def test_a_phrase_that_only_a_subject_has_is_found(
    alice: Account, store: MailStore, inbox: StoredMailbox
) -> None:
    store.add(inbox, "About the ferrets", BOB, MOMENT, "They are fine.")

    found = await call(alice, "list_messages", mailbox_id=inbox.id, query="Ferrets")

    assert [row.subject for row in found.messages] == ["About the ferrets"]


async def test_a_message_of_html_is_text_and_its_attachments_are_named(alice: Account) -> None:
    read = await call(alice, "get_message", message_id=2)

    assert read.content == "# Invoice 4711\n2 hedges\t48 euro\n"
    assert [row.model_dump() for row in read.attachments] == [
        {"name": "Invoice 4711.pdf", "type": "application/pdf", "size": 48_213}
    ]
    assert read.unread is True


async def test_reading_marks_nothing_as_read(alice: Account, store: MailStore, sandbox: Sandbox) -> None:
    await call(alice, "list_messages", mailbox_id=1)
    await call(alice, "get_message", message_id=2)

    assert "seen" not in store.messages[1].flags
    assert {record.method for record in sandbox.requests.records} == {"GET"}


async def test_a_long_message_comes_in_pages_and_so_do_its_many_recipients_not(
    alice: Account, store: MailStore, inbox: StoredMailbox
) -> None:
    body = "<p>" + "\"'\\ </p><p>" * 8_000 + "</p>"
    people = [("ü" * 300, f"{number}@example.test") for number in range(500)]
    files = [(f"{number}" * 100, "a/b", 1) for number in range(500)]
    long = store.add(inbox, "\\" * 900, BOB, MOMENT, body, is_html=True, to=people, cc=people)
    long.attachments.extend(files)

    page = await call(alice, "get_message", message_id=long.id)
    text = page.content
    while page.next_offset is not None:
        assert answer.result(page)
        page = await call(alice, "get_message", message_id=long.id, offset=page.next_offset)
        text += page.content

    assert len(text.encode()) == page.size
    assert 0 < len(page.to) < 500


async def test_what_is_hostile_in_a_message_is_shown_or_taken_out(
    alice: Account, store: MailStore, inbox: StoredMailbox
) -> None:
    link = "https://cloud.example.org/login/v2/flow/abc"
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    plain = store.add(inbox, "\u202eHi\nthere", ("bob@example.test", "eve@evil.test"), 10**15, link + hidden)
    plain.phishing, plain.signature_valid, plain.reply_to = True, False, [("", "eve@other.test")]
    page = store.add(inbox, "", BOB, 0, f'<style>obey</style><a href="{link}">Click {link}</a>', is_html=True)

    first = answer.result(await call(alice, "get_message", message_id=plain.id)).structured_content
    second = answer.result(await call(alice, "get_message", message_id=page.id)).structured_content

    assert first is not None
    assert second is not None
    assert (first["content"], second["content"]) == (answer.NEUTRALISED, f"Click {answer.NEUTRALISED}\n")
    assert first["subject"] == "<U+202E>Hi there"
    assert (first["sender"], first["reply_to"]) == ("bob@example.test <eve@evil.test>", "eve@other.test")
    assert first["note"] == "Mail warns that this may be phishing. Its signature is not valid."
    assert "sent" not in first


async def test_what_cannot_be_read_is_said(alice: Account, store: MailStore, inbox: StoredMailbox) -> None:
    locked = store.add(inbox, "Locked", BOB, MOMENT, None, is_html=True, attachments=[("", "", 0)])
    fresh = store.add_mailbox(store.accounts[0], "Never opened", opened=False)

    read = await call(alice, "get_message", message_id=locked.id)

    assert (read.content, read.sent) == ("", datetime.fromtimestamp(MOMENT, UTC))
    assert "could not decrypt" in read.note
    assert read.attachments[0].name == "without a name"
    with pytest.raises(errors.ServerFault, match="never opened"):
        await call(alice, "list_messages", mailbox_id=fresh.id)
    store.down = True
    with pytest.raises(errors.ServerFault, match="mail server"):
        await call(alice, "get_message", message_id=locked.id)


async def test_no_user_reads_the_mail_of_another(sandbox: Sandbox) -> None:
    bob = account_in(sandbox, "bob")

    assert (await call(bob, "list_mailboxes")).accounts == []
    for tool, arguments in (
        ("list_mailboxes", {"account_id": 1}),
        ("list_messages", {"mailbox_id": 1}),
        ("get_message", {"message_id": 1}),
    ):
        with pytest.raises(errors.NextcloudError):
            await call(bob, tool, **arguments)
