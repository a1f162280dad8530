"""The sandbox's CardDAV, below /remote.php/dav/addressbooks/users."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from nextcloud_mcp_server.sandbox.address_book import (
    SYSTEM_BOOK,
    StoredBook,
    StoredCard,
    delivered,
    lines_of,
    repaired,
    uid_of,
)
from nextcloud_mcp_server.sandbox.dav_request import Element, parse_wanted, parse_xml
from nextcloud_mcp_server.sandbox.dav_xml import (
    CARD,
    DAV,
    FEATURES,
    OC,
    XML_TYPE,
    DavFault,
    Found,
    Markup,
    bad_request,
    escape_href,
    forbidden,
    multistatus,
    not_found,
    not_implemented,
)
from nextcloud_mcp_server.sandbox.propfind import http_date
from nextcloud_mcp_server.sandbox.state import State, User
from nextcloud_mcp_server.sandbox.transfer import check_conditions, empty, read_body

_CARD_TYPE = "text/vcard; charset=utf-8"
_REPORTED = {"Content-Type": XML_TYPE, "Vary": "Brief,Prefer"}
_HEADERS = {
    **_REPORTED,
    "DAV": FEATURES.replace(" nc-paginate,", " oc-resource-sharing, addressbook, nc-paginate,"),
}
_COLLECTION = Markup("<d:collection/>")
_BOOK = Markup("<d:collection/><card:addressbook/>")
_FORMATS = (("text/vcard", "3.0"), ("text/vcard", "4.0"), ("application/vcard+json", "4.0"))
_ADDRESS_DATA = Markup(
    "".join(
        f'<card:address-data-type content-type="{kind}" version="{number}"/>' for kind, number in _FORMATS
    )
)
_READ = ("read", "read-acl", "read-current-user-privilege-set")
_RIGHTS = {
    "home": (
        "all", "read", "write", "write-properties", "write-content", "unlock", "bind", "unbind", "write-acl",
        "read-acl", "read-current-user-privilege-set",
    ),
    "own": ("write-properties", "write", "write-content", "unlock", "bind", "unbind", "write-acl", *_READ),
    "system": ("write-properties", *_READ),
    "recent": _READ,
}  # fmt: skip
_UNPARSABLE = (
    "This resource only supports valid vCard or jCard data. Parse error: Invalid Mimedir file. "
    "Line starting at {line} did not follow iCalendar/vCard conventions"
)


@dataclass(frozen=True, slots=True)
class ContactsRequest:
    """One request to a person's address books; `names` is the path below them."""

    request: Request
    state: State
    user: User
    names: Sequence[str]
    base: str

    async def answer(self) -> Response:
        """Answer the request."""
        body = await read_body(self.request)
        match self.request.method, self.names:
            case "PROPFIND", _:
                return multistatus(self._found(parse_wanted(body)), headers=_HEADERS)
            case "REPORT", [book]:
                return multistatus(self._reported(book, parse_xml(body)), headers=_REPORTED)
            case "MKCOL", [book]:
                asked = parse_xml(body).find("set", "prop", "displayname")
                self.user.address_books[book] = StoredBook(book if asked is None else asked.text)
                return empty(201)
            case "DELETE", [book]:
                self._book(book)
                del self.user.address_books[book]
                return empty(204)
            case (("GET" | "PUT" | "DELETE"), [book, name]):
                return self._answer_card(self._book(book), book, name, body)
            case _:
                raise not_implemented(self.request.method)

    def _answer_card(self, book: StoredBook, book_name: str, name: str, body: bytes) -> Response:
        card = book.cards.get(name)
        unchanged = check_conditions(self.request, card)
        if unchanged is not None:
            return unchanged
        if self.request.method == "PUT":
            if book.kind != "own":
                raise not_found(f"Node with name '{book_name}' could not be found")
            return self._put(book, name, body)
        if card is None:
            raise not_found("Card not found")
        if self.request.method == "GET":
            return _download(name, card)
        if book.kind != "own":
            raise forbidden("")
        del book.cards[name]
        return empty(204)

    def _put(self, book: StoredBook, name: str, body: bytes) -> Response:
        text = body.decode(errors="replace")
        try:
            lines = lines_of(text)
        except ValueError as wrong:
            raise _unsupported(_UNPARSABLE.format(line=wrong)) from None
        if lines[:1] != [("BEGIN", "BEGIN:VCARD")]:
            raise _unsupported("This collection can only support vcard objects.")
        uid = uid_of(text)
        known = name in book.cards
        if uid is not None and not known and book.holds_uid(uid, but=name):
            raise bad_request("VCard object with uid already exists in this addressbook collection.")
        book.put(name, repaired(text) if uid is None else text, self.state.clock().timestamp())
        # A repaired card differs from the request, so the answer has no etag.
        etag = f'"{book.cards[name].etag}"'
        told = {} if uid is None else {"ETag": etag, "OC_ETag": etag}
        return empty(204 if known else 201, **told)

    # What PROPFIND finds

    def _found(self, wanted: list[str] | None) -> list[Found]:
        below = self.request.headers.get("depth", "1") != "0"
        match self.names:
            case []:
                found = [_properties(self._href(), _home(), wanted)]
                books = self._books() if below else {}
                return [*found, *(self._describe(name, book, wanted) for name, book in books.items())]
            case [name]:
                book = self._book(name)
                cards = book.cards if below else {}
                return [
                    self._describe(name, book, wanted),
                    *(self._card(name, *one, wanted) for one in cards.items()),
                ]
            case [name, card] if card in self._book(name).cards:
                return [self._card(name, card, self._book(name).cards[card], wanted)]
            case _:
                raise not_found("Card not found")

    def _describe(self, name: str, book: StoredBook, wanted: list[str] | None) -> Found:
        return _properties(f"{self._href(name)}/", _described(book), wanted)

    def _card(self, book: str, name: str, card: StoredCard, wanted: list[str] | None) -> Found:
        return _properties(self._href(book, name), _card_properties(card, card.data), wanted)

    # What a REPORT finds

    def _reported(self, name: str, asked: Element) -> list[Found]:
        cards = self._book(name).cards
        wanted: list[str] = []
        data = None
        if (prop := asked.find("prop")) is not None:
            wanted, data = [child.name for child in prop.children], prop.find("address-data", uri=CARD)
        parts = [] if data is None else [one.attributes["name"] for one in data.every("prop", uri=CARD)]
        hrefs = {unquote(one.text.rpartition("/")[2]) for one in asked.every("href")}
        filters = [one for each in asked.every("filter", uri=CARD) for one in each.children]
        found: list[Found] = []
        for card_name, card in cards.items():
            if (hrefs and card_name not in hrefs) or not _passes(card, filters):
                continue
            try:
                text = delivered(card.data, parts)
            except ValueError:
                raise DavFault(500, "Sabre\\VObject\\ParseException", "Invalid Mimedir file.") from None
            found.append(_properties(self._href(name, card_name), _card_properties(card, text), wanted))
        return found

    # Where things are

    def _books(self) -> dict[str, StoredBook]:
        own = {name: book for name, book in self.user.address_books.items() if book.kind == "own"}
        recent = {name: book for name, book in self.user.address_books.items() if book.kind != "own"}
        return {**own, SYSTEM_BOOK: self.state.accounts_book(), **recent}

    def _book(self, name: str) -> StoredBook:
        book = self._books().get(name)
        if book is None:
            raise not_found(f"Node with name '{name}' could not be found")
        return book

    def _href(self, *names: str) -> str:
        path = "/".join((self.base, self.user.uid, *names))
        # A colon stays as it is here.
        return escape_href(path if names else f"{path}/").replace("%3a", ":")


def _download(name: str, card: StoredCard) -> Response:
    etag, plain = f'"{card.etag}"', quote(name, safe="")
    headers = {
        "Content-Type": _CARD_TYPE,
        "Last-Modified": http_date(card.modified_at),
        "ETag": etag,
        "OC-ETag": etag,
        "Content-Disposition": f"attachment; filename*=UTF-8''{plain}; filename=\"{plain}\"",
    }
    return Response(delivered(card.data, []), 200, headers)


def _unsupported(message: str) -> DavFault:
    return DavFault(415, "Sabre\\DAV\\Exception\\UnsupportedMediaType", message)


def _passes(card: StoredCard, filters: Iterable[Element]) -> bool:
    """Return whether one of the filters matches."""
    conditions = [(one.attributes["name"], one.find("text-match", uri=CARD)) for one in filters]
    return not conditions or any(
        wanted is None or wanted.text.casefold() in line.partition(":")[2].casefold()
        for name, wanted in conditions
        for found, line in lines_of(card.data)
        if found == name
    )


_Values = dict[str, "str | Markup | None"]


def _home() -> _Values:
    return {f"{{{DAV}}}resourcetype": _COLLECTION, f"{{{DAV}}}current-user-privilege-set": _rights("home")}


def _described(book: StoredBook) -> _Values:
    token = f"http://sabre.io/ns/sync/{book.changes}"
    values: _Values = {
        f"{{{DAV}}}displayname": book.display_name,
        f"{{{DAV}}}resourcetype": _BOOK,
        "{http://calendarserver.org/ns/}getctag": token if book.kind == "recent" else str(book.changes),
        f"{{{CARD}}}supported-address-data": _ADDRESS_DATA,
        f"{{{DAV}}}current-user-privilege-set": _rights(book.kind),
    }
    if book.kind != "recent":
        values[f"{{{DAV}}}sync-token"] = token
    if book.kind != "own":
        values[f"{{{OC}}}read-only"] = "1"
    if book.description is not None:
        values[f"{{{CARD}}}addressbook-description"] = book.description
    return values


def _card_properties(card: StoredCard, text: str) -> _Values:
    return {
        f"{{{DAV}}}getlastmodified": http_date(card.modified_at),
        f"{{{DAV}}}getcontentlength": str(len(card.data.encode())),
        f"{{{DAV}}}resourcetype": None,
        f"{{{DAV}}}getetag": f'"{card.etag}"',
        f"{{{DAV}}}getcontenttype": _CARD_TYPE,
        f"{{{CARD}}}address-data": text,
    }


def _rights(kind: str) -> Markup:
    return Markup("".join(f"<d:privilege><d:{right}/></d:privilege>" for right in _RIGHTS[kind]))


def _properties(href: str, values: _Values, wanted: list[str] | None) -> Found:
    """Return the requested properties; without a list, those that are cheap to compute."""
    cheap = [name for name in values if name.startswith((f"{{{DAV}}}get", f"{{{DAV}}}resource"))]
    names = cheap if wanted is None else wanted
    missing = [name for name in names if name not in values]
    return Found(
        href, {name: values[name] for name in names if name in values}, {404: missing} if missing else {}
    )
