"""Tools for address books and contacts."""

import re
from contextlib import aclosing
from datetime import date
from functools import partial
from typing import Annotated, NamedTuple

from pydantic import Field

from nextcloud_mcp_server.apps.contacts import results
from nextcloud_mcp_server.apps.contacts.client import LEFT_OUT, Card, ContactsClient, new_card
from nextcloud_mcp_server.apps.contacts.fields import Changes, Contact
from nextcloud_mcp_server.errors import InvalidInput
from nextcloud_mcp_server.formats import line_ends
from nextcloud_mcp_server.formats.content_line import Pieces
from nextcloud_mcp_server.formats.vcard import TooLong, VCard
from nextcloud_mcp_server.nextcloud import remarks
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.held_bytes import HeldBytes
from nextcloud_mcp_server.nextcloud.ids import TextId
from nextcloud_mcp_server.nextcloud.spelling import folded
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK
from nextcloud_mcp_server.tools import pagination
from nextcloud_mcp_server.tools.arguments import Empty
from nextcloud_mcp_server.tools.toolset import Toolset, require_provisioning

contacts = Toolset("contacts")

_NUMBER = re.compile(r"\+?[\d\s()/.-]{3,}")
_BIRTHDAY = re.compile(r"(\d{4}|-)-(\d\d-\d\d)")
#: A leap year, to check birthdays without a year.
_LEAP_YEAR = "2000"
_UNWRITABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MAX_ENTRIES = 50
#: A page holds a few hundred rows: shorter ones are not counted. Of a longer one, each character may take four bytes.
_SHORT_ROW = 2_000
_CHARACTER = 4
#: To look at a line of a card takes as long as at so many characters.
_LINE = 50
_TAKEN_OFF = Empty("takes it off")
_FIRST_CONTROL = " "

# For lack of room, the tool that changes a contact omits this description.
BookId = Annotated[str, Field(description="Id of an address book.")]
ContactId = Annotated[TextId, Field(description="The id of a contact in a list.")]
Emails = Annotated[list[str] | None, Field(description='The whole list, as "a@b.c" or "work: a@b.c".')]
Phones = Annotated[list[str] | None, Field(description='As "+49 30 1" or "cell: +49 30 1".')]
Addresses = Annotated[
    list[str] | None, Field(description='As "home: street; city; region; postal code; country".')
]
Birthday = Annotated[str | None, Field(description="1990-05-17, or --05-17.")]


@contacts.tool("List address books", read_only=True)
@require_provisioning("contacts:read")
async def nc_contacts_list_address_books(nc: Account) -> results.Books:
    """List the address books and which can be written to; the book "contacts" is usually the main one."""
    return results.Books(address_books=await nc.client(ContactsClient).list_books())


@contacts.tool("Search contacts", read_only=True)
@require_provisioning("contacts:read")
async def nc_contacts_search_contacts(
    nc: Account,
    *,
    query: Annotated[str, Field(description="Words or a phone number; empty lists all.")] = "",
    book: Annotated[str | None, Field(description="Id of an address book; default: all.")] = None,
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> results.ContactPage:
    """Find or list contacts of one or all address books, by name; go on with cursor."""
    words = folded(query).split()
    number = re.sub(r"\D", "", query) if _NUMBER.fullmatch(query.strip()) else ""
    window = TopK[_Found](lambda one: one.position, limit=limit, after=pagination.unseal(cursor, query, book))

    async def look(name: str, held: HeldBytes) -> None:
        async with aclosing(nc.client(ContactsClient).list_cards(name)) as cards:
            async for card in cards:
                found = await _found(card, words, number, uid=nc.uid)
                if found is None:
                    continue
                if found.size <= _SHORT_ROW or held.take(found.size * _CHARACTER):
                    window.offer(found)
                else:
                    remarks.add(LEFT_OUT)

    with HeldBytes(nc.uid) as held:
        look_in = partial(look, held=held)
        await (nc.client(ContactsClient).in_each(look_in) if book is None else look_in(book))
    page, more = window.page()
    rows = pagination.fit([one.row for one in page])
    more = more or len(rows) < len(page)
    return results.ContactPage(
        contacts=rows,
        total=window.total,
        cursor=pagination.seal(page[len(rows) - 1].position, query, book) if more else None,
    )


@contacts.tool("Read a contact", read_only=True)
@require_provisioning("contacts:read")
async def nc_contacts_get_contact(nc: Account, book: BookId, contact_id: ContactId) -> results.ContactInfo:
    """Read all fields of one contact, and the etag that changing it needs."""
    return results.info(await nc.client(ContactsClient).get(book, contact_id))


@contacts.tool("Create a contact")
@require_provisioning("contacts:write")
async def nc_contacts_create_contact(
    nc: Account,
    *,
    book: str = "contacts",
    name: str | None = None,
    given_name: str | None = None,
    family_name: str | None = None,
    org: str | None = None,
    title: str | None = None,
    emails: Emails = None,
    phones: Phones = None,
    addresses: Addresses = None,
    urls: list[str] | None = None,
    birthday: Birthday = None,
    note: str | None = None,
    categories: list[str] | None = None,
    vcard: Annotated[str | None, Field(description="A whole card instead of all fields.")] = None,
) -> results.ContactWritten:
    """Create a contact; a name, organisation or e-mail address is enough."""
    changes = Changes(
        name=name,
        given_name=given_name,
        family_name=family_name,
        org=org,
        title=title,
        emails=emails,
        phones=phones,
        addresses=addresses,
        urls=urls,
        birthday=birthday,
        note=note,
        categories=categories,
    )
    if (vcard is None) == (changes == Changes()):
        raise InvalidInput("Send either a whole 'vcard' or fields such as 'name' and 'emails'.")
    card = _new(_checked(changes)) if vcard is None else await _whole(vcard, uid=nc.uid)
    return results.written(await nc.client(ContactsClient).create(book, card))


@contacts.tool("Change a contact", destructive=True)
@require_provisioning("contacts:write")
async def nc_contacts_update_contact(
    nc: Account,
    book: str,
    contact_id: TextId,
    *,
    etag: str,
    name: str | None = None,
    given_name: Annotated[str | None, _TAKEN_OFF] = None,
    family_name: Annotated[str | None, _TAKEN_OFF] = None,
    org: Annotated[str | None, _TAKEN_OFF] = None,
    title: Annotated[str | None, _TAKEN_OFF] = None,
    emails: Emails = None,
    phones: Phones = None,
    addresses: Addresses = None,
    urls: list[str] | None = None,
    birthday: Annotated[Birthday, _TAKEN_OFF] = None,
    note: Annotated[str | None, _TAKEN_OFF] = None,
    categories: list[str] | None = None,
) -> results.ContactWritten:
    """Change only the given fields of a contact and keep all else, photo included; "" or [] clears one."""
    changes = Changes(
        name=name,
        given_name=given_name,
        family_name=family_name,
        org=org,
        title=title,
        emails=emails,
        phones=phones,
        addresses=addresses,
        urls=urls,
        birthday=birthday,
        note=note,
        categories=categories,
    )
    if changes == Changes():
        raise InvalidInput("Nothing to change: send at least one field, such as 'emails'.")
    return results.written(
        await nc.client(ContactsClient).update(book, contact_id, _checked(changes), if_match=etag)
    )


@contacts.tool("Delete a contact", destructive=True)
@require_provisioning("contacts:write")
async def nc_contacts_delete_contact(
    nc: Account, book: BookId, contact_id: ContactId, *, etag: str
) -> results.ContactDeleted:
    """Delete a contact for good: there is no trash; the answer repeats a short card."""
    return results.deleted(await nc.client(ContactsClient).delete(book, contact_id, if_match=etag))


class _Found(NamedTuple):
    """A contact that was found: what its row shows, not its whole card."""

    position: Position
    row: results.ContactRow

    @property
    def size(self) -> int:
        """Count the characters."""
        row = self.row
        shown = (row.name, row.org or "", row.kind or "", *(row.emails or ()), *(row.phones or ()))
        return 2 * len(self.position.name) + sum(map(len, shown))


def _position(card: Card) -> Position:
    """Return the sort key: the name, made unique by the id."""
    return Position.of(0, f"{card.contact.name}\n{card.book}/{card.id}")


async def _found(card: Card, words: list[str], number: str, *, uid: str) -> _Found | None:
    """Return a contact if it has the words, or the number; look at long ones in a thread."""
    contact = card.contact
    text = "\n".join(
        (
            contact.name, contact.given_name, contact.family_name, contact.nickname, contact.org, contact.title,
            contact.note, *contact.emails, *contact.phones, *contact.addresses, *contact.categories,
        )
    )  # fmt: skip

    def look() -> _Found | None:
        if not _matches(contact, text, words, number):
            return None
        return _Found(_position(card), results.row(card))

    return await aside(look, uid=uid, size=len(text) + len(card.vcard) * _LINE)


def _matches(contact: Contact, text: str, words: list[str], number: str) -> bool:
    if number and any(number in re.sub(r"\D", "", phone) for phone in contact.phones):
        return True
    plain = folded(text)
    return all(word in plain for word in words)


def _checked(changes: Changes) -> Changes:
    """Check the fields before they are written.

    Raises:
      InvalidInput: A value is not valid in a card.
    """
    if changes.name is not None and not changes.name.strip():
        raise InvalidInput("'name' is empty: a contact needs one.")
    for key in ("name", "given_name", "family_name", "org", "title"):
        _refuse_control(key, getattr(changes, key) or "")
    _refuse_unwritable("note", changes.note or "")
    for key in ("emails", "phones", "addresses", "urls", "categories"):
        entries: list[str] = getattr(changes, key) or []
        if len(entries) > _MAX_ENTRIES or not all(entry.strip() for entry in entries):
            raise InvalidInput(f"'{key}' takes up to {_MAX_ENTRIES} entries, none of them empty.")
        for entry in entries:
            _refuse_control(key, entry)
    if not all("@" in email for email in changes.emails or ()):
        raise InvalidInput(
            '\'emails\' must be addresses such as "anna@example.org" or "work: anna@example.org".'
        )
    if changes.birthday and not _is_day(changes.birthday):
        raise InvalidInput("'birthday' must be a date such as 1990-05-17, or --05-17 without the year.")
    return changes


def _is_day(text: str) -> bool:
    found = _BIRTHDAY.fullmatch(text)
    try:
        return found is not None and bool(
            date.fromisoformat(f"{_LEAP_YEAR if found[1] == '-' else found[1]}-{found[2]}")
        )
    except ValueError:
        return False


def _refuse_control(name: str, text: str) -> None:
    if any(character < _FIRST_CONTROL or character == "\x7f" for character in text):
        raise InvalidInput(f"'{name}' holds a line break or control character; send one line.")


def _refuse_unwritable(name: str, text: str) -> None:
    """Refuse characters that no vCard may contain (RFC 6350 §3.3): they would break the list of all cards."""
    if _UNWRITABLE.search(text):
        raise InvalidInput(f"'{name}' holds control characters; send it without.")


def _new(changes: Changes) -> VCard:
    card = new_card(changes)
    if not Contact.of(card).name:
        raise InvalidInput("A contact needs a 'name', an 'org' or an e-mail address.")
    return card


async def _whole(text: str, *, uid: str) -> VCard:
    """Parse a complete card from a client, a long one in a thread."""
    try:
        return await aside(partial(_parsed, text), uid=uid, size=Pieces.of(text).work)
    except TooLong as wrong:
        raise InvalidInput(
            f"'vcard' is too long for one contact ({wrong}); nothing was stored. Send a shorter card."
        ) from None


def _parsed(text: str) -> VCard:
    """Parse a complete card, with the line ends of vCards."""
    _refuse_unwritable("vcard", text)
    card = VCard.read(line_ends.written(text.strip(), "\r\n"))
    if not card.whole or card.version not in ("3.0", "4.0"):
        raise InvalidInput("'vcard' must be one whole vCard of version 3.0 or 4.0, from BEGIN to END.")
    return card
