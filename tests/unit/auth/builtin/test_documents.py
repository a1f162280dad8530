import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.auth.builtin import document_source
from nextcloud_mcp_server.auth.builtin.documents import (
    MOST_IN_ALL,
    MOST_PER_ADDRESS,
    MOST_PER_HOST,
    AllowedClients,
    is_address,
)
from nextcloud_mcp_server.errors import OAuthRefusal, TooManyRequests
from nextcloud_mcp_server.storage.oauth_records import Client
from tests.clients_fixtures import APP, DOCUMENT, START, ClientsFixture, Said, json_said

DAY = 86_400


def harness(
    document: dict[str, Any] | None = None, headers: Mapping[str, str] | None = None
) -> ClientsFixture:
    made = ClientsFixture()
    made.internet.put(APP, DOCUMENT if document is None else document, headers)
    return made


async def refused(made: ClientsFixture, url: str = APP, *, sender: str = "") -> OAuthRefusal:
    with pytest.raises(OAuthRefusal) as caught:
        await made.documents.get(url, sender=sender)
    return caught.value


async def test_a_client_is_what_its_document_says() -> None:
    made = harness()

    client = await made.documents.get(APP)

    assert client == Client(
        client_id=APP,
        kind="document",
        name="App",
        redirect_uris=("https://app.example.org/callback",),
        auth_method="none",
        secret_hash=None,
        scopes=None,
        created_at=START,
        last_used_at=None,
        native=False,
    )
    assert made.records.rows == {APP: client}
    assert made.internet.asked[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("cache_control", "seconds"),
    [
        ("", 3600),
        ("public", 3600),
        ("max-age=10", 300),
        ("no-store, max-age=9999", 300),
        ("public, max-age=7200", 7200),
        ('max-age="7200"', 7200),
        ("max-age=999999999", DAY),
    ],
)
async def test_a_document_is_asked_for_again_when_its_server_says_within_bounds(
    cache_control: str, seconds: int
) -> None:
    made = harness(headers={"Cache-Control": cache_control})

    await made.documents.get(APP)
    made.clock.go(seconds=seconds - 1)
    await made.documents.get(APP)
    assert len(made.internet.asked) == 1
    made.clock.go(seconds=1)
    await made.documents.get(APP)

    assert len(made.internet.asked) == 2


async def test_a_changed_document_counts_from_its_next_reading() -> None:
    made = harness()
    await made.documents.get(APP)
    made.internet.put(APP, DOCUMENT | {"redirect_uris": ["http://localhost/cb"]})
    made.clock.go(hours=2)

    client = await made.documents.get(APP)

    assert client.redirect_uris == ("http://localhost/cb",)
    assert client.native
    assert made.records.rows[APP] == client


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 1000


async def stalling() -> AsyncIterator[bytes]:
    yield b"{"
    await anyio.sleep_forever()


SILENT: list[Said | Exception] = [
    httpx2.ConnectError("refused"),
    httpx2.ReadTimeout("slow"),
    httpx2.RemoteProtocolError("broken"),
    httpx2.InvalidURL("odd"),
    Said(500),
    Said(429),
    Said(302, headers={"Location": "https://app.example.org/other.json"}),
    Said(content=b"<html>", headers={"Content-Type": "text/html"}),
    Said(content=b"{}"),
    Said(content=b"{}", headers={"Content-Type": "text/json"}),
    json_said(b"[]"),
    json_said(b"not json"),
    json_said(b"{}", {"Content-Encoding": "gzip"}),
    json_said(body=endless),
    json_said(body=stalling),
]


@pytest.mark.parametrize("answer", SILENT)
async def test_a_document_that_cannot_be_read_counts_as_it_was_for_a_week(
    answer: Said | Exception,
) -> None:
    made = ClientsFixture(seconds=0.05)
    made.internet.put(APP, DOCUMENT)
    known = await made.documents.get(APP)
    made.internet.answers[APP] = answer

    made.clock.go(days=1, hours=1)
    assert await made.documents.get(APP) == known
    assert await made.documents.get(APP) == known
    assert len(made.internet.asked) == 2
    assert await made.another_process().get(APP) == known
    made.clock.go(days=6)

    assert (await refused(made)).status == 503


async def test_a_document_that_could_never_be_read_is_asked_for_again_after_a_pause() -> None:
    made = ClientsFixture()
    made.internet.answers[APP] = httpx2.ConnectError("refused")

    refusals = [await refused(made) for _ in range(3)]
    assert {(refusal.error, refusal.status) for refusal in refusals} == {("temporarily_unavailable", 503)}
    assert len(made.internet.asked) == 1
    made.internet.put(APP, DOCUMENT)
    made.clock.go(seconds=30)

    assert (await made.documents.get(APP)).name == "App"


@pytest.mark.parametrize("status", [404, 410])
async def test_a_document_that_is_gone_counts_no_more(status: int) -> None:
    made = harness()
    await made.documents.get(APP)
    made.internet.answers[APP] = Said(status)
    made.clock.go(hours=2)

    refusal = await refused(made)

    assert (refusal.error, refusal.status) == ("invalid_client", 400)


@pytest.mark.parametrize(
    "fields",
    [
        {"token_endpoint_auth_method": None},
        {
            "token_endpoint_auth_method": "private_key_jwt",
            "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        },
        {
            "grant_types": [
                "authorization_code",
                "refresh_token",
                "urn:ietf:params:oauth:grant-type:device_code",
            ]
        },
        {"application_type": "native", "jwks_uri": "https://app.example.org/jwks.json"},
    ],
)
async def test_a_client_of_another_kind_is_settled_on_none(fields: dict[str, Any]) -> None:
    assert (await harness(DOCUMENT | fields).documents.get(APP)).auth_method == "none"


@pytest.mark.parametrize(
    "fields",
    [
        {"token_endpoint_auth_method": "client_secret_basic"},
        {
            "token_endpoint_auth_method": "client_secret_post",
            "token_endpoint_auth_methods_supported": ["none"],
        },
        {"token_endpoint_auth_method": "client_secret_jwt"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_methods_supported": "none"},
        {"token_endpoint_auth_method": 5},
        {"client_secret": "not secret any more"},
        {"client_secret_expires_at": 0},
    ],
)
async def test_a_client_that_insists_on_a_secret_or_a_key_is_refused(fields: dict[str, Any]) -> None:
    refusal = await refused(harness(DOCUMENT | fields))

    assert (refusal.error, refusal.status) == ("invalid_client", 400)


@pytest.mark.parametrize(
    "url",
    [
        "https://a-b.example.org/client.json",
        "https://xn--bcher-kva.example/oauth/",
        "https://app.example.org/a//b",
        "https://app.example.org/a%20b?c=d/e?f",
        "https://teamspark_ai.github.io/.well-known/client.json",
    ],
)
def test_an_address_of_a_document_has_a_name_and_a_path(url: str) -> None:
    assert document_source.host_of(url) == url.split("/")[2]


@pytest.mark.parametrize(
    "url",
    [
        "mcp-abc",
        "http://app.example.org/client.json",
        "https://app.example.org",
        "https://app.example.org/",
        "https://app.example.org?client.json",
        "https://app.example.org:443/client.json",
        "https://app.example.org:8443/client.json",
        "https://user@app.example.org/client.json",
        "https://user:password@app.example.org/client.json",
        "https://app.example.org/client.json#a",
        "https://app.example.org/a/../client.json",
        "https://app.example.org/./client.json",
        "https://app.example.org/a/%2E%2e/client.json",
        "https://app.example.org/..",
        "https://App.example.org/client.json",
        "https://app.example.org./client.json",
        "https://app..example.org/client.json",
        "https://-app.example.org/client.json",
        "https://localhost/client.json",
        "https://127.0.0.1/client.json",
        "https://127.1/client.json",
        "https://0x7f.0.0.0x1/client.json",
        "https://2130706433/client.json",
        "https://[::1]/client.json",
        "https://exämple.org/client.json",
        "https://app.example.org\\@evil.test/client.json",
        "https://app.example.org/client.json\n",
        "https://app.example.org/client json",
        f"https://app.example.org/{'a' * 500}",
        "",
    ],
)
async def test_nothing_else_is_asked_for(url: str) -> None:
    made = ClientsFixture()

    refusal = await refused(made, url)

    assert refusal.error == "invalid_client"
    assert made.internet.asked == []
    assert made.records.rows == {}


async def test_an_address_is_told_from_an_id_of_a_registration() -> None:
    registered = await ClientsFixture().register(redirect_uris=["https://app.example.org/"])

    assert is_address(APP)
    assert is_address("http://app.example.org/client.json")
    assert not is_address(registered["client_id"])


def test_a_denied_host_goes_before_an_allowed_one() -> None:
    rules = AllowedClients(
        allowed=frozenset({"claude.ai", "*.example.org"}),
        denied=frozenset({"evil.example.org", "*.bad.example.org"}),
    )

    assert [
        rules.allow_host(host)
        for host in (
            "claude.ai",
            "www.claude.ai",
            "a.example.org",
            "example.org",
            "evil.example.org",
            "a.bad.example.org",
            "notexample.org",
        )
    ] == [True, False, True, False, False, False, False]
    assert AllowedClients().allow_host("anonymous.test")
    assert not AllowedClients(denied=frozenset({"anonymous.test"})).allow_host("anonymous.test")


async def test_a_host_inside_our_network_is_not_asked_and_what_was_read_there_counts_no_more() -> None:
    made = harness()
    await made.documents.get(APP)
    made.internet.names["app.example.org"] = ["10.0.0.1"]
    made.clock.go(hours=2)

    assert (await refused(made)).status == 400
    assert len(made.internet.asked) == 1


async def test_a_document_of_another_client_is_refused() -> None:
    assert "another client_id" in str(await refused(harness(DOCUMENT | {"client_id": f"{APP}/"})))


async def test_a_host_that_is_not_allowed_is_not_asked() -> None:
    made = ClientsFixture(hosts=AllowedClients(allowed=frozenset({"claude.ai"})))

    assert "does not allow" in str(await refused(made))
    assert made.internet.asked == []


async def test_many_at_once_ask_once() -> None:
    made = harness()
    found: list[Client] = []

    async def slowly() -> AsyncIterator[bytes]:
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        yield json.dumps(DOCUMENT).encode()

    made.internet.answers[APP] = json_said(body=slowly)

    async def ask() -> None:
        found.append(await made.documents.get(APP))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)

    assert len(made.internet.asked) == 1
    assert found == [found[0]] * 20


async def test_a_host_is_asked_for_so_many_new_documents_a_minute() -> None:
    made = harness()
    await made.documents.get(APP)
    urls = [f"https://app.example.org/{number}.json" for number in range(MOST_PER_HOST)]
    for url in urls:
        made.internet.answers[url] = Said(404)
    for url in urls[:-1]:
        await refused(made, url)

    with pytest.raises(TooManyRequests):
        await made.documents.get(urls[-1])
    made.clock.go(seconds=59)
    with pytest.raises(TooManyRequests):
        await made.documents.get(urls[-1])
    made.clock.go(hours=2)

    assert (await refused(made, urls[-1])).error == "invalid_client"


async def test_a_refused_client_uses_up_nothing_of_the_share_of_others() -> None:
    made = harness()
    for number in range(MOST_PER_ADDRESS):
        url = f"https://h{number}.example.net/client.json"
        made.internet.answers[url] = Said(404)
        await refused(made, url, sender="198.51.100.1")
    urls = [f"https://fresh.example.net/{number}.json" for number in range(MOST_PER_HOST)]
    for url in urls:
        made.internet.answers[url] = Said(404)
        with pytest.raises(TooManyRequests):
            await made.documents.get(url, sender="198.51.100.1")

    assert {(await refused(made, url, sender="198.51.100.2")).error for url in urls} == {"invalid_client"}


async def test_a_known_document_is_asked_for_however_many_strangers_come() -> None:
    made = harness()
    await made.documents.get(APP)
    made.clock.go(hours=2)
    for number in range(MOST_IN_ALL):
        url = f"https://h{number}.example.net/client.json"
        made.internet.answers[url] = Said(404)
        await refused(made, url, sender=f"198.51.100.{number // MOST_PER_ADDRESS}")

    with pytest.raises(TooManyRequests):
        await made.documents.get("https://another.example.net/client.json")
    await made.documents.get(APP)

    assert made.internet.asked[-1].headers["Host"] == "app.example.org"


async def test_what_strangers_ask_for_does_not_fill_the_memory() -> None:
    made = harness()
    for number in range(600):
        made.clock.go(minutes=1)
        url = f"https://app.example.org/{number}.json"
        made.internet.answers[url] = Said(404)
        await refused(made, url)

    assert len(made.documents._kept) == 512  # pyright: ignore[reportPrivateUsage]
