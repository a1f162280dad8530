"""Contacts as resources: `nc://contacts/contacts/4711.vcf`."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from nextcloud_mcp_server.apps.contacts import results
from nextcloud_mcp_server.apps.contacts.client import BookRow, ContactsClient
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK
from nextcloud_mcp_server.resources.collection import Collections, Member
from nextcloud_mcp_server.resources.kind import About
from nextcloud_mcp_server.tools import pagination

_PAGE: Final = 100


class Contacts(Collections):
    """The kind of contacts, by address book and name.

    Listed by display name, one address book after another.
    """

    about = About(
        "contacts",
        template="nc://contacts/{book}/{contact}",
        name="contact",
        title="Contact",
        description="All fields of a contact, by its address book and its name there (book and id of the tools).",
        action="nc_contacts_get_contact",
        listing="nc_contacts_search_contacts",
    )
    place = "addressbooks"
    too_large = "The contact is too large for one resource."

    async def collections(self, nc: Account) -> Sequence[BookRow]:
        """Fetch the address books."""
        return await nc.client(ContactsClient).list_books()

    async def rows(self, nc: Account, name: str, cursor: str | None) -> tuple[list[Member], str | None]:
        """List a part of an address book, which is fetched completely, without photos."""
        window = TopK[Member](_position, limit=_PAGE, after=pagination.unseal(cursor, name))
        async with aclosing(self.members(nc, name)) as members:
            async for member in members:
                window.offer(member)
        found, more = window.page()
        return found, pagination.seal(_position(found[-1]), name) if more else None

    async def members(self, nc: Account, name: str) -> AsyncGenerator[Member]:
        """List the contacts of an address book."""
        async with aclosing(nc.client(ContactsClient).list_cards(name)) as cards:
            async for card in cards:
                yield Member(f"{card.book}/{card.id}", results.row(card).name)

    async def details(self, nc: Account, value: str) -> results.ContactInfo:
        """Fetch one contact."""
        book, _, name = value.partition("/")
        return results.info(await nc.client(ContactsClient).get(book, name))


def _position(member: Member) -> Position:
    return Position.of(0, f"{member.title} {member.value.partition('/')[2]}")
