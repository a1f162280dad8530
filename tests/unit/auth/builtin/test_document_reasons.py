"""Why a client's document is not used: the user reads one reason, and the operator's log says what to change."""

import ssl
from collections.abc import AsyncIterator

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.authorize_request import Requests
from nextcloud_mcp_server.auth.builtin.clients import Clients
from nextcloud_mcp_server.errors import (
    AuthorizeRefused,
    ClientBarred,
    DocumentHostRefused,
    DocumentsOff,
    DocumentTimedOut,
    DocumentUnfit,
    DocumentUnreachable,
)
from tests.clients_fixtures import APP, DOCUMENT, SCOPES, ClientsFixture, Said, json_said

HOST = "app.example.org"
ISSUER = "https://mcp.test"


def requests(harness: ClientsFixture, *, reads: bool = True) -> Requests:
    clients = Clients(harness.records, clock=harness.clock.now, allowed=harness.hosts)
    documents = harness.documents if reads else None
    return Requests(clients, documents, issuer=ISSUER, resource=f"{ISSUER}/mcp", bound=SCOPES)


async def refusal(harness: ClientsFixture, *, reads: bool = True) -> AuthorizeRefused:
    with pytest.raises(AuthorizeRefused) as caught:
        await requests(harness, reads=reads).read({"client_id": [APP]})
    return caught.value


def untrusted() -> httpx2.ConnectError:
    error = httpx2.ConnectError("certificate verify failed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    return error


async def stalling() -> AsyncIterator[bytes]:
    yield b"{"
    await anyio.sleep_forever()


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 1000


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (
            httpx2.ConnectError("no route"),
            DocumentUnreachable,
            "cannot be reached: the connection was not made",
        ),
        (untrusted(), DocumentUnreachable, "its certificate is not trusted"),
        (httpx2.ProxyError("407"), DocumentUnreachable, "the proxy does not let it through"),
        (httpx2.ConnectTimeout("silent"), DocumentTimedOut, "did not come in time"),
        (httpx2.ReadTimeout("slow"), DocumentTimedOut, "did not come in time"),
        (json_said(body=stalling), DocumentTimedOut, "did not come in time"),
        (Said(404), DocumentUnfit, "There is no document at the client's id"),
        (Said(403), DocumentUnfit, "was answered with status 403"),
        (Said(302, headers={"Location": "https://elsewhere.example"}), DocumentUnfit, "status 302"),
        (
            Said(content=b"<html>", headers={"Content-Type": "text/html"}),
            DocumentUnfit,
            "has a Content-Type other than JSON",
        ),
        (json_said(headers={"Content-Encoding": "gzip"}, body=endless), DocumentUnfit, "is compressed"),
        (json_said(body=endless), DocumentUnfit, "is larger than 5120 bytes"),
        (json_said(b"not json"), DocumentUnfit, "is not readable as JSON"),
        (json_said(b"[]"), DocumentUnfit, "is no JSON object"),
        (json_said(b"{}"), DocumentUnfit, "names another client_id"),
    ],
)
async def test_each_trouble_with_a_document_has_its_own_page_and_words(
    answer: Said | Exception, reason: type[AuthorizeRefused], words: str
) -> None:
    harness = ClientsFixture(seconds=0.05)
    harness.internet.answers[APP] = answer

    caught = await refusal(harness)

    assert type(caught) is reason
    assert words in str(caught)
    assert APP in str(caught)


@pytest.mark.parametrize("answer", [httpx2.ConnectError("no route"), httpx2.ReadTimeout("slow")])
async def test_the_log_says_what_the_operator_can_change(answer: Exception) -> None:
    harness = ClientsFixture()
    harness.internet.answers[APP] = answer

    sentence = str(await refusal(harness))

    assert f"connect to {HOST} on port 443" in sentence
    assert "CLIENT_METADATA_PROXY" in sentence
    assert "CLIENT_METADATA_DOCUMENTS=false" in sentence


async def test_a_host_without_any_address_cannot_be_reached() -> None:
    harness = ClientsFixture()
    harness.internet.names[HOST] = []

    assert "cannot be reached" in str(await refusal(harness))


async def test_a_host_inside_of_the_network_is_not_asked() -> None:
    harness = ClientsFixture()
    harness.internet.names[HOST] = ["10.0.0.1"]

    caught = await refusal(harness)

    assert type(caught) is DocumentHostRefused
    assert "an address that is not public" in str(caught)


async def test_a_host_that_the_operator_does_not_allow_is_said_to_be_barred() -> None:
    harness = ClientsFixture(hosts=AllowedClients(allowed=frozenset({"claude.ai"})))

    assert type(await refusal(harness)) is ClientBarred


async def test_where_documents_are_off_no_host_is_asked_though_the_client_is_known() -> None:
    harness = ClientsFixture()
    harness.internet.put(APP, DOCUMENT)
    await harness.documents.get(APP)
    asked = len(harness.internet.asked)

    caught = await refusal(harness, reads=False)

    assert type(caught) is DocumentsOff
    assert "CLIENT_METADATA_DOCUMENTS=false" in str(caught)
    assert len(harness.internet.asked) == asked


async def test_an_id_that_is_no_address_of_a_document_is_not_trusted() -> None:
    with pytest.raises(AuthorizeRefused) as caught:
        await requests(ClientsFixture()).read({"client_id": ["http://app.example.org/client.json"]})

    assert type(caught.value) is AuthorizeRefused


async def test_a_copy_that_is_used_because_the_document_cannot_be_read_is_logged_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = ClientsFixture()
    harness.internet.put(APP, DOCUMENT)
    await harness.documents.get(APP)
    harness.internet.answers[APP] = httpx2.ConnectError("no route")
    harness.clock.go(days=1)

    await harness.documents.get(APP)

    assert f"{APP} cannot be reached" in caplog.text
