from collections.abc import Callable
from datetime import UTC, datetime

import httpx2
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.contacts import client as contacts_client
from nextcloud_mcp_server.apps.contacts.client import MAX_CARD_BYTES, ContactsClient, new_card
from nextcloud_mcp_server.apps.contacts.fields import Changes
from nextcloud_mcp_server.formats.vcard import VCard
from nextcloud_mcp_server.nextcloud import remarks
from nextcloud_mcp_server.nextcloud.credential import BasicCredential
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp, open_pool
from nextcloud_mcp_server.nextcloud.url_policy import NextcloudUrl
from nextcloud_mcp_server.sandbox.address_book import SYSTEM_BOOK
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.dav_fakes import entry, multistatus, network

NOW = datetime(2026, 11, 27, 21, 13, 8, tzinfo=UTC)
V4 = (
    "BEGIN:VCARD\r\nVERSION:4.0\r\nUID:u-4\r\nFN:Ann\r\nN:;Ann;;;\r\nTEL;VALUE=uri:tel:+49-171-5\r\n"
    "ANNIVERSARY:20090808\r\nPHOTO:data:image/png;base64,iVBORw0KGgo\r\nREV:20200101T000000Z\r\nEND:VCARD\r\n"
)


def connected(
    handle: httpx2.AsyncBaseTransport, *, uid: str = "alice", login: str = "alice"
) -> ContactsClient:
    pool = open_pool(ca_bundle=None, user_agent="tests", transport=handle)
    url, secret = NextcloudUrl.parse("http://h/nextcloud"), SecretStr("alice")
    http = NextcloudHttp(pool, url, credential=BasicCredential(login, secret), uid=uid)
    return ContactsClient(http, clock=lambda: NOW)


def answering(*answers: httpx2.Response) -> ContactsClient:
    return connected(httpx2.MockTransport(network(*answers)))


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox.demo(base_path="/nextcloud")


@pytest.fixture
def store(sandbox: Sandbox) -> Callable[[str, str], None]:
    def put(name: str, text: str) -> None:
        sandbox.state.users["alice"].address_books["contacts"].put(name, text, 0)

    return put


@pytest.fixture
def client(sandbox: Sandbox) -> ContactsClient:
    return connected(httpx2.ASGITransport(app=sandbox.app))


async def names(client: ContactsClient, book: str = "contacts") -> list[str]:
    return [card.contact.name async for card in client.list_cards(book)]


async def test_the_books_say_which_can_be_written_to(client: ContactsClient) -> None:
    books = await client.list_books()

    assert [(book.name, book.writable) for book in books] == [
        ("Contacts", True),
        ("Accounts", False),
        ("Recently contacted", False),
    ]
    assert books[1].description == "System address book which holds all accounts"


async def test_addresses_are_made_of_the_uid_and_not_of_the_login_name(sandbox: Sandbox) -> None:
    """B13."""
    alice = sandbox.state.users["alice"]
    alice.login_names = ("a@x.org",)
    client = connected(httpx2.ASGITransport(app=sandbox.app), login="a@x.org")

    assert await names(client) == ["Chandra Rao", "Zoë Müller"]


async def test_one_broken_card_never_hides_the_list(
    client: ContactsClient, store: Callable[[str, str], None]
) -> None:
    """U67."""
    store("broken.vcf", "BEGIN:VCARD\r\nBDAY\r\nFN:Half\r\n")
    store("photo.vcf", V4.replace("Kgo", "Kgo" + "A" * 400_000))

    assert await names(client) == ["Chandra Rao", "Zoë Müller", "Half", "Ann"]


async def test_a_card_of_too_many_lines_is_said_and_left_out_of_a_list(
    client: ContactsClient, store: Callable[[str, str], None]
) -> None:
    store("many.vcf", V4.replace("FN:", "TEL:1\r\n" * 10_001 + "FN:"))

    with remarks.collected() as said:
        listed = await names(client)

    assert "Ann" not in listed
    assert "so long that not all of them were read" in said[0]
    with pytest.raises(errors.TooLarge, match="more than 10,000 lines"):
        await client.get("contacts", "many.vcf")


async def test_a_list_of_cards_made_to_be_slow_ends_and_short_ones_are_still_there(
    client: ContactsClient, store: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """450 cards of 10,000 lines took minutes."""
    monkeypatch.setattr(contacts_client, "_MOST_LONG", 300_000)
    for number in range(4):
        store(f"{number}.vcf", V4.replace("FN:", "TEL:1\r\n" * 1_200 + "FN:"))
    store("short.vcf", V4.replace("FN:Ann", "FN:Short"))

    with remarks.collected() as said:
        listed = await names(client)

    assert (listed.count("Ann"), listed.count("Short")) == (2, 1)
    assert "so long that not all of them were read" in said[0]


async def test_a_fault_in_the_middle_of_a_list_is_no_reason_to_begin_anew() -> None:
    row = (
        "<d:response><d:href>/nextcloud/remote.php/dav/addressbooks/users/alice/contacts/{}.vcf</d:href>"
        "<d:propstat><d:prop><d:getetag>&quot;e&quot;</d:getetag></d:prop>"
        "<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
    )
    rows = "".join(row.format(number) for number in range(600))
    client = answering(httpx2.Response(207, text=f'<d:multistatus xmlns:d="DAV:">{rows}<d:resp'))

    found: list[str] = []
    with pytest.raises(errors.ServerFault):
        found.extend([card.id async for card in client.list_cards("contacts")])


async def test_a_card_of_version_4_is_changed_as_it_is_stored_and_not_as_it_is_exported(
    client: ContactsClient, sandbox: Sandbox, store: Callable[[str, str], None]
) -> None:
    """B97. U65."""
    store("some name.vcf", V4)
    read = await client.get("contacts", "some name.vcf")

    written = await client.update("contacts", "some name.vcf", Changes(note="hi"), if_match=f'"{read.etag}"')

    stored = sandbox.state.users["alice"].address_books["contacts"].cards["some name.vcf"]
    expected = V4.replace("END", "NOTE:hi\r\nEND").replace("20200101T000000Z", "20261127T211308Z")
    assert (stored.data, stored.etag) == (expected, written.etag)


async def test_nothing_is_written_when_nothing_changes(
    client: ContactsClient, sandbox: Sandbox, store: Callable[[str, str], None]
) -> None:
    store("a.vcf", V4)
    read = await client.get("contacts", "a.vcf")
    sandbox.requests.clear()

    same = await client.update("contacts", "a.vcf", Changes(name="Ann"), if_match=read.etag or "")

    assert same.etag == read.etag
    assert [record.method for record in sandbox.requests.records] == ["PROPFIND"]


async def test_a_contact_that_was_changed_since_is_neither_overwritten_nor_deleted(
    client: ContactsClient, store: Callable[[str, str], None]
) -> None:
    store("a.vcf", V4)
    etag = (await client.get("contacts", "a.vcf")).etag

    with pytest.raises(errors.EtagMismatch, match="again, look at what has changed") as caught:
        await client.update("contacts", "a.vcf", Changes(note="x"), if_match="old")
    with pytest.raises(errors.EtagMismatch):
        await client.delete("contacts", "a.vcf", if_match="old")

    assert caught.value.current_etag == etag


async def test_a_new_contact_is_stored_under_a_name_of_its_own_and_deleted_for_good(
    client: ContactsClient,
) -> None:
    made = await client.create("contacts", new_card(Changes(name="Bo Diddley", emails=["work: bo@x"])))

    deleted = await client.delete("contacts", made.id, if_match=made.etag or "")

    assert deleted.vcard.text == made.vcard.text
    assert made.id.removesuffix(".vcf") != made.contact.uid
    assert (made.contact.given_name, made.contact.family_name) == ("Bo", "Diddley")
    with pytest.raises(errors.NotFound, match="nc_contacts_search_contacts"):
        await client.get("contacts", made.id)


async def test_a_card_that_nextcloud_repairs_is_read_again_for_its_etag(
    client: ContactsClient, store: Callable[[str, str], None]
) -> None:
    card = VCard.read("BEGIN:VCARD\r\nVERSION:3.0\r\nFN:N\r\nN:N;;;;\r\nEND:VCARD\r\n")

    made = await client.create("contacts", card)

    assert made.contact.uid
    assert made.etag == (await client.get("contacts", made.id)).etag
    store("b.vcf", card.text)
    read = await client.get("contacts", "b.vcf")
    changed = await client.update("contacts", "b.vcf", Changes(note="x"), if_match=read.etag or "")
    assert changed.contact.uid


async def test_a_uid_that_is_there_already_is_said(client: ContactsClient) -> None:
    await client.create("contacts", VCard.read(V4))

    with pytest.raises(errors.InvalidName, match="uid already exists"):
        await client.create("contacts", VCard.read(V4))


async def test_a_book_of_nextclouds_own_is_read_but_not_written_to(client: ContactsClient) -> None:
    cards = [card async for card in client.list_cards(SYSTEM_BOOK)]

    with pytest.raises(errors.NotFound, match="cannot be written to"):
        await client.create(SYSTEM_BOOK, VCard.read(V4))
    with pytest.raises(errors.Forbidden, match="cannot be written to"):
        await client.delete(SYSTEM_BOOK, cards[1].id, if_match=cards[1].etag or "")

    assert [(card.id, card.contact.name) for card in cards] == [
        ("Database:alice.vcf", "Alice Example"),
        ("Database:bob.vcf", "Bob Builder"),
    ]


@pytest.mark.parametrize("book", ["nowhere", "", "..", "contacts/../x", "a/b"])
async def test_a_book_that_is_none_is_said(client: ContactsClient, book: str) -> None:
    with pytest.raises((errors.NotFound, errors.InvalidInput)):
        await names(client, book)


async def test_a_full_account_is_said(sandbox: Sandbox, client: ContactsClient) -> None:
    """B26."""
    sandbox.faults.status(507, area="dav")

    with pytest.raises(errors.StorageFull):
        await client.create("contacts", VCard.read(V4))


async def test_what_cannot_be_stored_is_refused_before_it_is_sent(
    client: ContactsClient, store: Callable[[str, str], None]
) -> None:
    store("old.vcf", V4.replace("VERSION:4.0", "VERSION:2.1"))
    store("none.vcf", V4.replace("VERSION:4.0\r\n", ""))
    old, none = [await client.get("contacts", name) for name in ("old.vcf", "none.vcf")]

    with pytest.raises(errors.InvalidInput, match=r"vCard 2\.1"):
        await client.update("contacts", "old.vcf", Changes(note="x"), if_match=old.etag or "")
    with pytest.raises(errors.InvalidInput, match="no version"):
        await client.update("contacts", "none.vcf", Changes(note="x"), if_match=none.etag or "")
    with pytest.raises(errors.InvalidInput, match="larger"):
        await client.create("contacts", VCard.read(V4.replace("Ann", "A" * MAX_CARD_BYTES)))


async def test_an_answer_without_the_card_is_no_contact() -> None:
    href = "/nextcloud/remote.php/dav/addressbooks/users/alice/contacts/a.vcf"
    empty = f'<d:multistatus xmlns:d="DAV:"><d:response><d:href>{href}</d:href></d:response></d:multistatus>'

    with pytest.raises(errors.NotFound):
        await answering(httpx2.Response(207, text=empty)).get("contacts", "a.vcf")


@pytest.mark.parametrize("href", ["", "contacts/", "contacts/other.vcf", "contacts/mine.vcf/below"])
async def test_an_answer_about_another_address_is_not_the_contact(href: str) -> None:
    client = answering(
        multistatus(
            [
                entry(
                    "",
                    href=f"/nextcloud/remote.php/dav/addressbooks/users/alice/{href}",
                    extra='<c:address-data xmlns:c="urn:ietf:params:xml:ns:carddav">BEGIN:VCARD</c:address-data>',
                )
            ]
        )
    )

    with pytest.raises(errors.NotFound):
        await client.get("contacts", "mine.vcf")


@pytest.mark.parametrize("told", ["", "<d:getetag></d:getetag>"])
async def test_a_contact_without_an_etag_is_left_alone_and_the_reason_is_said(told: str) -> None:
    """Neither a change nor a deletion can be guarded; no etag is not another etag."""
    card = f"{told}<card:address-data xmlns:card='urn:ietf:params:xml:ns:carddav'>{V4}</card:address-data>"
    href = "/nextcloud/remote.php/dav/addressbooks/users/alice/contacts/a.vcf"
    net = network(*(multistatus([entry("", href=href, etag=None, extra=card)]) for _ in range(2)))
    client = connected(httpx2.MockTransport(net))

    with pytest.raises(errors.ServerFault, match=r"named no version .* read it again"):
        await client.update("contacts", "a.vcf", Changes(title="x"), if_match="e")
    with pytest.raises(errors.ServerFault, match=r"named no version .* read it again"):
        await client.delete("contacts", "a.vcf", if_match="e")

    assert net.methods == ["PROPFIND"] * 2
