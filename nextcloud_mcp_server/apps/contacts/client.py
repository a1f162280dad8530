"""Reads and writes address books and contacts over CardDAV (RFC 6352)."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from html import escape
from typing import Final, Self
from uuid import uuid4

from nextcloud_mcp_server import errors
from nextcloud_mcp_server.apps.contacts.fields import Changes, Contact, apply, revise
from nextcloud_mcp_server.formats import timestamp, vcard
from nextcloud_mcp_server.formats.content_line import Pieces
from nextcloud_mcp_server.formats.vcard import TooLong, VCard
from nextcloud_mcp_server.nextcloud import dav, entries, file_errors, pace, parallel, remarks
from nextcloud_mcp_server.nextcloud.app_client import AppClient, Connection
from nextcloud_mcp_server.nextcloud.aside import aside
from nextcloud_mcp_server.nextcloud.error_mapping import CHANGED
from nextcloud_mcp_server.nextcloud.etag import normalise, of, parse, quote, required
from nextcloud_mcp_server.nextcloud.held_bytes import HeldBytes
from nextcloud_mcp_server.nextcloud.http import NextcloudHttp
from nextcloud_mcp_server.nextcloud.multistatus import DavResponse
from nextcloud_mcp_server.nextcloud.user_cache import UserCache
from nextcloud_mcp_server.tools.result import Result

#: Nextcloud's default limit (`card_size_limit`).
MAX_CARD_BYTES: Final = 5_242_880
_MAX_RESPONSE_BYTES: Final = 2 * MAX_CARD_BYTES

#: A card that takes more work than a real one (`Pieces.parsing`), and the limit for all such in one list.
_LONG: Final = 100_000
_MOST_LONG: Final = 20_000_000
#: After so much work, other requests are served.
_TURN: Final = 100_000

#: Changing a card takes time for each of its lines, during which other requests wait.
_MOST_LINES: Final = 1_000

_BOOK: Final = (
    "d:displayname", "d:resourcetype", "card:addressbook-description", "oc:read-only",
    "d:current-user-privilege-set",
)  # fmt: skip
_CARD: Final = ("d:getetag", "card:address-data")
#: The properties that lists show and search: all short ones, never a photo.
_LISTED: Final = (
    "FN", "N", "NICKNAME", "ORG", "TITLE", "EMAIL", "TEL", "ADR", "NOTE", "CATEGORIES", "KIND",
    "X-ADDRESSBOOKSERVER-KIND", "X-ABLABEL",
)  # fmt: skip
_NO_BOOK: Final = "There is no such address book. Call nc_contacts_list_address_books for the ones there are."
_NO_CONTACT: Final = (
    "There is no such contact in that address book. Call nc_contacts_search_contacts to find it."
)
_READ_ONLY: Final = (
    "This address book cannot be written to: it is Nextcloud's own, or shared read-only. "
    "nc_contacts_list_address_books says which can."
)
#: The remark on a list without the cards that are too long.
LEFT_OUT: Final = "Some contacts are so long that not all of them were read; they are missing here."
_TOO_LONG: Final = (
    "This contact is too long to be read here ({wrong}), so it was left alone: open it in Nextcloud's "
    "Contacts app."
)
_TAKEN: Final = (
    "Nextcloud does not accept this card{reason}. If its UID is in the address book already, change that "
    "contact instead."
)


class BookRow(Result):
    """One address book; `id` is what the other tools take as book."""

    id: str
    name: str
    writable: bool
    description: str | None = None


@dataclass(frozen=True)
class Card:
    """One contact: `id` is its name in the address book, which may differ from its UID.

    `etag` is None where Nextcloud sent none, and where the card was stored but could not be fetched afterwards.
    """

    book: str
    id: str
    etag: str | None
    vcard: VCard
    contact: Contact


class ContactsClient(AppClient):
    """Reads and writes one user's contacts."""

    def __init__(
        self,
        http: NextcloudHttp,
        *,
        clock: Callable[[], datetime] = timestamp.now,
        cache: UserCache | None = None,
    ) -> None:
        super().__init__(http)
        self._clock = clock
        self._cache = cache or UserCache()
        # The uid, never the login name: URLs contain the uid.
        self._tree = dav.Tree(("addressbooks", *dav.Tree.of("users", http.uid).root))

    @classmethod
    def from_connection(cls, connection: Connection) -> Self:
        """Build the client."""
        return cls(connection.http, cache=connection.cache)

    async def list_books(self) -> list[BookRow]:
        """Fetch the address books, including shared ones and those that Nextcloud generates."""
        async with self._ask("PROPFIND", (), dav.propfind(_BOOK), depth="1") as found:
            return [
                _book(segments[0], response)
                async for segments, response in found
                if len(segments) == 1 and response.has_inner("d:resourcetype", "card:addressbook")
            ]

    async def in_each(self, call: Callable[[str], Awaitable[None]]) -> None:
        """Call `call` for each address book in parallel; known books do not wait for the list."""

        async def listing() -> list[str]:
            return [each.id for each in await self.list_books()]

        names = await parallel.of_each(listing, self._cache.states("address books"), call)
        self._cache.saw("address books", dict.fromkeys(names, ""))

    async def list_cards(self, book: str) -> AsyncGenerator[Card]:
        """Fetch the cards of a book without photos; one request, two where a card is malformed.

        A card that is too long is left out, with a remark.

        Nextcloud fails the whole list when it cannot parse one card. The second request asks for the cards as they
        are stored, which Nextcloud does not parse.

        Raises:
          NotFound: No such address book.
        """
        segments, begun = _segments(book), False
        try:
            async with aclosing(self._cards("REPORT", segments, _query())) as cards:
                async for card in cards:
                    begun = True
                    yield card
        except errors.ServerFault:
            if begun:
                raise
            async with aclosing(self._cards("PROPFIND", segments, dav.propfind(_CARD))) as cards:
                async for card in cards:
                    yield card

    async def get(self, book: str, contact_id: str) -> Card:
        """Fetch one card as it is stored.

        For a GET, Nextcloud may convert the card to another version of vCard and lose what that version does not
        know. As a property the text is returned unchanged.

        Raises:
          NotFound: No such contact or address book.
          TooLarge: The card has too many lines.
        """
        wanted = _segments(book, contact_id)
        body = dav.propfind(_CARD)
        async with self._ask("PROPFIND", wanted, body, depth="0", missing=_NO_CONTACT) as found:
            stored = [response async for segments, response in found if dav.same(segments, wanted)]
        text = stored[0].text("card:address-data") if stored else ""
        if not text:
            raise errors.NotFound(_NO_CONTACT)
        try:
            return await self._card((book, contact_id), stored[0], Pieces.of(text))
        except TooLong as wrong:
            raise errors.TooLarge(_TOO_LONG.format(wrong=wrong)) from None

    async def create(self, book: str, card: VCard) -> Card:
        """Store a new card; sends a second request where Nextcloud repairs the card.

        Raises:
          InvalidName: Nextcloud rejects the card, or has one with its UID.
          Forbidden: The address book is read-only.
        """
        contact_id = f"{uuid4()}.vcf"
        return await self._put(book, contact_id, card, {"If-None-Match": "*"})

    async def update(self, book: str, contact_id: str, changes: Changes, *, if_match: str) -> Card:
        """Set the given fields and keep the rest of the card; two or three requests.

        Raises:
          EtagMismatch: It was changed since it was read; nothing was written.
          Forbidden: The address book is read-only.
        """
        before = await self._current(book, contact_id, if_match)
        card, old = before.vcard, before.vcard.text
        if card.version not in ("3.0", "4.0"):
            raise errors.InvalidInput(
                f"This card is written in vCard {card.version or 'of no version'}, which is only read here. "
                "Edit and save it once in Nextcloud's Contacts app."
            )
        if len(card) > _MOST_LINES:
            raise errors.InvalidInput(
                f"This card has {len(card):,} lines, more than are changed here: edit it in Nextcloud's Contacts app."
            )
        if card.several:
            raise errors.InvalidInput(
                "This contact holds more than one card, so what belongs to whom is not clear and it was left alone: "
                "edit it in Nextcloud's Contacts app."
            )
        apply(card, changes)
        if card.text == old:
            return before
        revise(card, f"{self._clock():%Y%m%dT%H%M%SZ}")
        return await self._put(book, contact_id, card, {"If-Match": quote(required(before.etag))})

    async def delete(self, book: str, contact_id: str, *, if_match: str) -> Card:
        """Delete a contact permanently and return the deleted card; two requests.

        Raises:
          EtagMismatch: It was changed since it was read; it still exists.
          Forbidden: The address book is read-only.
        """
        card = await self._current(book, contact_id, if_match)
        await self._http.request(
            "DELETE",
            self._tree.url(_segments(book, contact_id)),
            headers={"If-Match": quote(required(card.etag))},
            sentences={403: _READ_ONLY, 404: _NO_CONTACT},
        )
        return card

    async def _current(self, book: str, contact_id: str, if_match: str) -> Card:
        """Fetch one card and check that its etag is still `if_match`.

        Raises:
          EtagMismatch: It was changed since it was read.
          ServerFault: Nextcloud sent no etag.
        """
        card = await self.get(book, contact_id)
        if normalise(if_match) != required(card.etag):
            raise errors.EtagMismatch(CHANGED, current_etag=card.etag)
        return card

    async def _put(self, book: str, contact_id: str, card: VCard, condition: dict[str, str]) -> Card:
        text = card.text
        data = text.encode()
        if len(data) > MAX_CARD_BYTES:
            raise errors.InvalidInput(f"The card would be larger than {MAX_CARD_BYTES:,} bytes: shorten it.")
        response = await self._http.request(
            "PUT",
            self._tree.url(_segments(book, contact_id)),
            content=data,
            headers={"Content-Type": "text/vcard; charset=utf-8", **condition},
            sentences={400: _TAKEN, 415: _TAKEN, 403: _READ_ONLY, 404: _READ_ONLY},
        )
        contact = await aside(partial(Contact.of, card), uid=self._http.uid, size=Pieces.of(text).work)
        etag = of(response.headers)
        if etag is not None:
            return Card(book, contact_id, etag, card, contact)
        try:
            return await self.get(book, contact_id)
        except file_errors.NOT_SEEN:
            # The card is stored. After an error the client would store it again.
            return Card(book, contact_id, None, card, contact)

    async def _cards(self, method: str, segments: dav.Segments, body: bytes) -> AsyncGenerator[Card]:
        long = turn = 0
        async with self._ask(method, segments, body, depth="1") as found:
            async for place, response in found:
                if len(place) != len(("book", "card")):
                    continue
                pieces = Pieces.of(response.text("card:address-data"))
                is_long = pieces.parsing > _LONG
                long += pieces.parsing if is_long else 0
                turn += pieces.work
                if turn > _TURN:
                    turn = 0
                    await pace.give_way()
                with HeldBytes(self._http.uid) as held:
                    try:
                        if (not is_long or long <= _MOST_LONG) and held.take(vcard.memory(pieces)):
                            yield await self._card(place, response, pieces)
                            continue
                    except TooLong:
                        pass
                    remarks.add(LEFT_OUT)

    async def _card(self, segments: dav.Segments, response: DavResponse, pieces: Pieces) -> Card:
        """Parse a card with its fields, a long one in a thread.

        Raises:
          TooLong: It has too many lines.
        """
        return await aside(partial(_card, segments, response), uid=self._http.uid, size=pieces.work)

    def _ask(
        self, method: str, segments: dav.Segments, body: bytes, *, depth: str, missing: str = _NO_BOOK
    ) -> AbstractAsyncContextManager[AsyncGenerator[entries.Located]]:
        return entries.ask(
            self._http,
            method,
            self._tree,
            segments,
            body=body,
            headers={"Depth": depth},
            sentences={404: missing},
            longest=_MAX_RESPONSE_BYTES,
        )


def new_card(changes: Changes) -> VCard:
    """Return a card with these fields, in vCard 3, which every program reads."""
    card = VCard.read(f"BEGIN:VCARD\r\nVERSION:3.0\r\nUID:{uuid4()}\r\nFN:\r\nN:;;;;\r\nEND:VCARD\r\n")
    apply(card, changes)
    return card


def _segments(book: str, *below: str) -> dav.Segments:
    """Check the names and return the segments of the URL."""
    names = (book, *below)
    for name in names:
        if len(dav.split(name)) != 1 or "/" in name:
            raise errors.NotFound(_NO_CONTACT if below else _NO_BOOK)
    return names


def _book(name: str, response: DavResponse) -> BookRow:
    return BookRow(
        id=name,
        name=response.text("d:displayname") or name,
        description=response.text("card:addressbook-description") or None,
        writable=response.is_writable,
    )


def _card(segments: dav.Segments, response: DavResponse) -> Card:
    book, name = segments
    etag = parse(response.text("d:getetag"))
    parsed = VCard.read(response.text("card:address-data"))
    return Card(book, name, etag, parsed, Contact.of(parsed))


def _query() -> bytes:
    wanted = "".join(f'<card:prop name="{escape(name)}"/>' for name in _LISTED)
    return (
        f'<?xml version="1.0"?><card:addressbook-query {dav.DECLARED}><d:prop><d:getetag/>'
        f"<card:address-data>{wanted}</card:address-data></d:prop></card:addressbook-query>"
    ).encode()
