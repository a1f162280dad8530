from collections.abc import Callable

import httpx2
import pytest

from nextcloud_mcp_server.sandbox.app import Sandbox

BOOK = "/remote.php/dav/addressbooks/users/alice/contacts"
V4 = "BEGIN:VCARD\r\nVERSION:4.0\r\nUID:u\r\nFN:A\r\nTEL;VALUE=uri:tel:+49\r\nANNIVERSARY:20090808\r\nEND:VCARD\r\n"
QUERY = '<c:addressbook-query xmlns:c="urn:ietf:params:xml:ns:carddav"/>'


@pytest.fixture
def alice(sandbox: Sandbox, connect: Callable[..., httpx2.AsyncClient]) -> httpx2.AsyncClient:
    return connect(sandbox, auth=("alice", "alice"))


async def test_a_card_of_version_4_is_handed_out_in_version_3(alice: httpx2.AsyncClient) -> None:
    """B97."""
    await alice.put(f"{BOOK}/a.vcf", content=V4)

    got = await alice.get(f"{BOOK}/a.vcf")

    assert got.text == "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:u\r\nFN:A\r\nTEL:tel:+49\r\nEND:VCARD\r\n"


async def test_a_card_that_cannot_be_parsed_breaks_every_report(
    alice: httpx2.AsyncClient, sandbox: Sandbox
) -> None:
    sandbox.state.users["alice"].address_books["contacts"].put("a.vcf", "BEGIN:VCARD\r\nNOPE", 0)

    answer = await alice.request("REPORT", BOOK, content=QUERY, headers={"Depth": "1"})

    assert answer.status_code == 500


async def test_what_is_not_there_or_no_card_is_refused(alice: httpx2.AsyncClient) -> None:
    await alice.put(f"{BOOK}/a.vcf", content=V4)
    etag = (await alice.get(f"{BOOK}/a.vcf")).headers["ETag"]

    answers = [
        await alice.get(f"{BOOK}/b.vcf"),
        await alice.request("PROPFIND", f"{BOOK}/b.vcf"),
        await alice.put(f"{BOOK}/c.vcf", content="FN:x\r\n"),
        await alice.get(f"{BOOK}/a.vcf", headers={"If-None-Match": etag}),
        await alice.request("COPY", f"{BOOK}/a.vcf"),
        await alice.request("PROPFIND", "/remote.php/dav/addressbooks/users/bob/"),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 415, 304, 501, 404]
