"""Contacts as resources: `nc://contacts/contacts/4711.vcf`."""

import json
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Final

from pydantic import ConfigDict, TypeAdapter, ValidationError

from nextcloud_mcp_server.apps.contacts import results
from nextcloud_mcp_server.apps.contacts.client import Card, ContactsClient
from nextcloud_mcp_server.errors import InvalidInput, NotFound, TooLarge
from nextcloud_mcp_server.nextcloud.account import Account
from nextcloud_mcp_server.nextcloud.top_k import Position, TopK
from nextcloud_mcp_server.resources import collection
from nextcloud_mcp_server.resources.kind import (
    MAX_BYTES,
    MAX_VALUES,
    About,
    Contents,
    Listed,
    Marks,
    Page,
    Reader,
    Typed,
)
from nextcloud_mcp_server.tools import pagination

_JSON: Final = "application/json"
_PAGE: Final = 100
#: The address book of a page, and where in it the page begins.
_CURSOR = TypeAdapter(tuple[str, str | None], config=ConfigDict(defer_build=True))


class Contacts:
    """The kind of contacts, by address book and name.

    Listed by display name, one address book after another.
    """

    about = About(
        toolset="contacts",
        scopes=frozenset({"contacts:read"}),
        template="nc://contacts/{book}/{contact}",
        argument="book",
        name="contact",
        title="Contact",
        description="All fields of a contact, by its address book and its name there (book and id of the tools).",
        mime_type=_JSON,
        action="nc_contacts_get_contact",
        listing="nc_contacts_search_contacts",
    )

    async def page(self, nc: Account, cursor: str | None) -> Page:
        """List a part of an address book, which is fetched completely, without photos."""
        book, inner = _read(cursor)
        names = [each.id for each in await nc.client(ContactsClient).list_books()]
        if not names:
            return Page([])
        here = collection.at(names, book)
        window = TopK[Card](_position, limit=_PAGE, after=pagination.unseal(inner, names[here]))
        async with aclosing(nc.client(ContactsClient).list_cards(names[here])) as cards:
            async for card in cards:
                window.offer(card)
        found, more = window.page()
        rows = [
            Listed(self.about.uri(f"{card.book}/{card.id}"), results.row(card).name, _JSON) for card in found
        ]
        if more:
            return Page(rows, json.dumps([names[here], pagination.seal(_position(found[-1]), names[here])]))
        return Page(rows, json.dumps([names[here + 1], None]) if here + 1 < len(names) else None)

    async def read(self, nc: Account, value: str, reader: Reader) -> Contents:  # noqa: ARG002 - the form of a kind
        """Return all fields of a contact, as nc_contacts_get_contact does."""
        book, _, name = value.partition("/")
        found = results.info(await nc.client(ContactsClient).get(book, name)).model_dump_json(
            exclude_none=True
        )
        if len(found.encode()) > MAX_BYTES:
            raise TooLarge("The contact is too large for one resource.")
        return Contents(found, _JSON)

    async def look(
        self, nc: Account, values: Collection[str], before: Marks | None, *, listing: bool
    ) -> Marks:
        """Fetch the state of each address book, and the etags of contacts only where it has changed."""
        return await collection.look(nc, "addressbooks", values, before, listing=listing)

    async def complete(self, nc: Account, typed: Typed) -> list[str]:
        """Find address books by name, and contacts of one address book by display name."""
        if typed.name == self.about.argument:
            books = await nc.client(ContactsClient).list_books()
            found = [each.id for each in books if collection.begins(typed.value, each.id, each.name)]
        else:
            found = [name async for name in _named(nc, typed)]
        return found[: MAX_VALUES + 1]


async def _named(nc: Account, typed: Typed) -> AsyncGenerator[str]:
    try:
        async with aclosing(nc.client(ContactsClient).list_cards(typed.others.get("book", ""))) as cards:
            async for card in cards:
                if collection.begins(typed.value, card.id, results.row(card).name):
                    yield card.id
    except (NotFound, InvalidInput):
        return


def _position(card: Card) -> Position:
    return Position.of(0, f"{results.row(card).name} {card.id}")


def _read(cursor: str | None) -> tuple[str | None, str | None]:
    if cursor is None:
        return None, None
    try:
        return _CURSOR.validate_json(cursor)
    except ValidationError:
        raise InvalidInput("That cursor does not belong to this list; list again without one.") from None
