"""Results of the contact tools.

They have no field that is empty; a `Contact`, which is read and compared, has all of them.
"""

from dataclasses import asdict

from nextcloud_mcp_server.apps.contacts.client import BookRow, Card
from nextcloud_mcp_server.formats.vcard import Line
from nextcloud_mcp_server.tools.result import LongText, Result

_MAX_NOTE = 20_000
_MAX_TEXT = 300
_MAX_ENTRIES = 20
#: The maximum size of a card that a deletion returns, so that it can be created again.
_MAX_UNDO_BYTES = 4_000
_SHOWN = frozenset(
    {
        "BEGIN", "END", "VERSION", "UID", "FN", "N", "NICKNAME", "ORG", "TITLE", "EMAIL", "TEL", "ADR", "URL",
        "BDAY", "NOTE", "CATEGORIES", "KIND", "X-ABLABEL", "PHOTO",
    }
)  # fmt: skip


class Books(Result):
    """All address books."""

    address_books: list[BookRow]


class ContactRow(Result):
    """A contact in a list. `kind` is given where it is no person; `unreadable` where the card is broken."""

    book: str
    id: str
    name: str
    org: str | None = None
    emails: list[str] | None = None
    phones: list[str] | None = None
    kind: str | None = None
    unreadable: bool | None = None


class ContactPage(Result):
    """A page of contacts; `total` counts all that were found."""

    contacts: list[ContactRow]
    total: int
    cursor: str | None = None


class ContactInfo(Result):
    """One contact. `other` names what its card holds besides, all of which a change keeps."""

    book: str
    id: str
    etag: str | None = None
    name: str
    uid: str | None = None
    given_name: str | None = None
    family_name: str | None = None
    nickname: str | None = None
    org: str | None = None
    title: str | None = None
    emails: list[str] | None = None
    phones: list[str] | None = None
    addresses: list[str] | None = None
    urls: list[str] | None = None
    birthday: str | None = None
    note: LongText | None = None
    note_truncated: bool | None = None
    categories: list[str] | None = None
    kind: str | None = None
    photo: str | None = None
    other: list[str] | None = None
    unreadable: bool | None = None


class ContactWritten(Result):
    """What was stored; without `etag` where it could not be looked at afterwards."""

    book: str
    id: str
    etag: str | None = None
    name: str
    given_name: str | None = None
    family_name: str | None = None
    size: int


class ContactDeleted(Result):
    """What was deleted; `vcard` is the whole card, where it is short."""

    deleted: str
    undo: str
    vcard: LongText | None = None


def row(card: Card) -> ContactRow:
    """Return the list row of a contact, even for a malformed card."""
    contact = card.contact
    return ContactRow(
        book=card.book,
        id=card.id,
        name=contact.name[:_MAX_TEXT],
        org=contact.org[:_MAX_TEXT] or None,
        emails=contact.emails[:_MAX_ENTRIES] or None,
        phones=contact.phones[:_MAX_ENTRIES] or None,
        kind=contact.kind[:_MAX_TEXT] or None,
        unreadable=None if card.vcard.whole else True,
    )


def info(card: Card) -> ContactInfo:
    """Return all shown fields of a contact."""
    contact, vcard = card.contact, card.vcard
    note = contact.note[:_MAX_NOTE]
    photo = next(vcard.every("PHOTO"), None)
    about = {
        "book": card.book,
        "id": card.id,
        "etag": card.etag,
        "name": contact.name,
        "note": note or None,
        "note_truncated": True if len(note) < len(contact.note) else None,
        "photo": None if photo is None else _photo(photo),
        "other": [name for name in vcard.names if name not in _SHOWN] or None,
        "unreadable": None if vcard.whole else True,
    }
    given = {name: value or None for name, value in asdict(contact).items()}
    return ContactInfo.model_validate({**given, **about})


def written(card: Card) -> ContactWritten:
    """Return the stored contact, with display name and name parts, since one may have changed the other."""
    contact = card.contact
    return ContactWritten(
        book=card.book,
        id=card.id,
        etag=card.etag,
        name=contact.name,
        given_name=contact.given_name or None,
        family_name=contact.family_name or None,
        size=len(card.vcard.text.encode()),
    )


def deleted(card: Card) -> ContactDeleted:
    """Return the deleted contact, and how much of it can be restored."""
    text = card.vcard.text
    short = len(text.encode()) <= _MAX_UNDO_BYTES
    return ContactDeleted(
        deleted=card.contact.name,
        undo="Nextcloud has no trash for contacts, so this cannot be undone."
        + (" nc_contacts_create_contact makes a new contact of the vcard given here." if short else ""),
        vcard=text if short else None,
    )


def _photo(line: Line) -> str:
    if line.value[:4].lower() == "http":
        return "at an address on the web"
    return f"a picture of about {len(line.value) * 3 // 4:,} bytes"
