"""How the recordings of address books are replayed."""

from nextcloud_mcp_server.sandbox.address_book import RECENT_BOOK
from nextcloud_mcp_server.sandbox.app import Sandbox
from tests.contract.recording import load
from tests.contract.replay import Session, Step, Table, case
from tests.contract.steps import expect, in_sandbox


def sent(*names: str) -> Step:
    """Send earlier recordings first; an etag in their responses is bound to the one here."""

    async def step(session: Session) -> None:
        for name in names:
            earlier = load(name)
            headers = {key: value for key, value in earlier.headers.items() if key != "Authorization"}
            headers = {key: session.translate(value) for key, value in headers.items()}
            answer = await session.server.send(
                earlier.method, earlier.path, headers=headers, body=earlier.body
            )
            expect(answer, earlier.status)
            if "etag" in earlier.answer_headers:
                session.bind(earlier.answer_headers["etag"].strip('"'), answer.headers["ETag"].strip('"'))

    return step


def _counted(sandbox: Sandbox) -> None:
    """Set the address books to the recorded number of changes."""
    books = sandbox.state.users["alice"].address_books
    books["contacts"].changes, books[RECENT_BOOK].changes = 2, 1795813988
    del sandbox.state.users["bob"]
    for number in range(9):
        sandbox.add_user(f"person{number}")


_BOOK = sent("carddav/mkcol_addressbook_201")
_CREATED = sent("carddav/mkcol_addressbook_201", "carddav/put_create_201")
_UPDATED = sent("carddav/mkcol_addressbook_201", "carddav/put_create_201", "carddav/put_update_204")
_COUNTS = "the address books count every change since they were made"

CONTACTS: Table = {
    "carddav/delete_204": case(_UPDATED),
    "carddav/delete_book_204": case(_UPDATED),
    "carddav/get_card": case(_UPDATED),
    "carddav/home_propfind": case(in_sandbox(_counted), sandbox_only=_COUNTS),
    "carddav/mkcol_addressbook_201": case(),
    "carddav/put_create_201": case(_BOOK),
    "carddav/put_duplicate_uid": case(_UPDATED),
    "carddav/put_invalid_vcf": case(_BOOK),
    "carddav/put_no_uid": case(_BOOK),
    "carddav/put_stale_412": case(_UPDATED),
    "carddav/put_update_204": case(_CREATED),
    "carddav/report_multiget": case(_UPDATED),
    "carddav/report_query": case(_UPDATED),
    "carddav/system_addressbook": case(loose=True),
    "carddav/system_addressbook_put_404": case(),
}

NOT_REPLAYED = {
    "carddav/wellknown_redirect": "the web server's own redirect; addresses are built from the person's uid",
}
