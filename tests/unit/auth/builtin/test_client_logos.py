from dataclasses import replace

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.auth.builtin.allowed_clients import AllowedClients
from nextcloud_mcp_server.auth.builtin.client_logos import MOST_PER_HOST, MOST_PIXELS, ClientLogos
from nextcloud_mcp_server.nextcloud.picture import MOST_BYTES
from nextcloud_mcp_server.storage.oauth_records import Client
from tests.clients_fixtures import APP, DOCUMENT, ClientsFixture, Said
from tests.unit.nextcloud.test_image_size import png

LOGO = "https://cdn.example.net/logo.png"
IMAGE = {"Content-Type": "image/png"}


def logos_of(made: ClientsFixture, *, seconds: float = 60.0) -> ClientLogos:
    return ClientLogos(made.records, made.internet.open(), seconds=seconds, monotonic=made.clock.monotonic)


async def with_logo(
    made: ClientsFixture, logo: object = LOGO, said: Said | Exception | None = None
) -> Client:
    made.internet.put(APP, DOCUMENT | {"logo_uri": logo})
    made.internet.answers[LOGO] = said or Said(content=png(64, 64), headers=IMAGE)
    client = await made.documents.get(APP)
    made.internet.asked.clear()
    return client


async def test_the_logo_of_a_document_is_fetched_once_a_day() -> None:
    made = ClientsFixture()
    client, logos = await with_logo(made), logos_of(made)

    first, second = await logos.of(client), await logos.of(client)
    made.clock.go(hours=25)
    await logos.of(client)

    assert first is not None
    assert first == second
    assert first.data_uri.startswith("data:image/png;base64,")
    assert len(made.internet.asked) == 2
    assert {"authorization", "cookie", "referer", "origin"}.isdisjoint(made.internet.asked[0].headers)


async def test_the_logo_of_a_registration_is_shown_too() -> None:
    made = ClientsFixture()
    made.internet.answers[LOGO] = Said(content=png(64, 64), headers=IMAGE)
    registered = await made.register(redirect_uris=["http://127.0.0.1/cb"], logo_uri=LOGO)
    nameless = await made.register(redirect_uris=["http://127.0.0.1/cb"])

    found = await logos_of(made).of_all(
        dict.fromkeys([registered["client_id"], nameless["client_id"], "unknown"], "")
    )

    assert list(found) == [registered["client_id"]]


@pytest.mark.parametrize(
    ("name", "shown_as"), [("Claude", "Claude"), ("Claude", "Notes for me"), ("Notes for me", "Claude")]
)
async def test_a_client_that_imitates_another_has_no_logo_under_either_name(name: str, shown_as: str) -> None:
    """The owner of a document can change the name in it after a user has allowed the client."""
    made = ClientsFixture()
    made.internet.answers[LOGO] = Said(content=png(64, 64), headers=IMAGE)
    imitator = await made.register(redirect_uris=["https://evil.example/cb"], logo_uri=LOGO, client_name=name)

    found = await logos_of(made).of_all({imitator["client_id"]: shown_as})

    assert found == {}
    assert made.internet.asked == []


@pytest.mark.parametrize(
    "logo",
    [
        None,
        7,
        "",
        "http://cdn.example.net/logo.png",
        "https://cdn.example.net:8443/logo.png",
        "https://10.0.0.1/logo.png",
        "https://user@cdn.example.net/logo.png",
        "data:image/png;base64,AAAA",
        "javascript:alert(1)",
        "https://cdn.example.net/" + "a" * 600,
    ],
)
async def test_an_address_that_no_document_may_have_is_none_of_a_logo(logo: object) -> None:
    made = ClientsFixture()
    client = await with_logo(made, logo)

    assert client.logo == ""
    assert await logos_of(made).of(client) is None
    assert made.internet.asked == []


async def test_a_host_that_the_operator_does_not_allow_is_not_asked() -> None:
    made = ClientsFixture()
    client = await with_logo(made)
    logos = ClientLogos(
        made.records, made.internet.open(), hosts=AllowedClients(denied=frozenset({"cdn.example.net"}))
    )

    assert await logos.of(client) is None
    assert made.internet.asked == []


async def test_a_host_of_the_internal_network_is_not_asked() -> None:
    made = ClientsFixture()
    made.internet.names["cdn.example.net"] = ["10.0.0.1"]
    client = await with_logo(made)

    assert await logos_of(made).of(client) is None
    assert made.internet.asked == []


@pytest.mark.parametrize(
    "said",
    [
        Said(content=b"<svg xmlns='http://www.w3.org/2000/svg'/>", headers={"Content-Type": "image/svg+xml"}),
        Said(content=b"<html>", headers=IMAGE),
        Said(content=png(64, 64), headers={"Content-Type": "text/html"}),
        Said(content=png(64, 64), headers={**IMAGE, "Content-Encoding": "gzip"}),
        Said(content=png(64, 64) + b"x" * MOST_BYTES, headers=IMAGE),
        Said(content=png(MOST_PIXELS + 1, 1), headers=IMAGE),
        Said(content=png(1, MOST_PIXELS + 1), headers=IMAGE),
        Said(content=png(0, 1), headers=IMAGE),
        Said(content=b"\x89PNG\r\n\x1a\n", headers=IMAGE),
        Said(302, headers={"Location": "https://cdn.example.net/other.png"}),
        Said(404),
        httpx2.ConnectError("refused"),
    ],
)
async def test_anything_else_is_no_logo_and_not_asked_for_again_at_once(said: Said | Exception) -> None:
    made = ClientsFixture()
    client, logos = await with_logo(made, said=said), logos_of(made)

    assert await logos.of(client) is None
    assert await logos.of(client) is None
    assert len(made.internet.asked) == 1


async def test_the_former_logo_stays_while_its_host_is_away() -> None:
    made = ClientsFixture()
    client, logos = await with_logo(made), logos_of(made)
    former = await logos.of(client)
    made.clock.go(hours=25)
    made.internet.answers[LOGO] = httpx2.ConnectError("refused")

    assert former is not None
    assert await logos.of(client) == former


async def test_a_page_does_not_wait_for_a_host_that_says_nothing() -> None:
    async def endless() -> object:
        await anyio.sleep_forever()
        yield b""

    made = ClientsFixture()
    client = await with_logo(made, said=Said(headers=IMAGE, body=endless))  # pyright: ignore[reportArgumentType]

    with anyio.fail_after(60):
        assert await logos_of(made, seconds=0.01).of(client) is None


async def test_no_host_is_asked_without_end() -> None:
    made = ClientsFixture()
    client, logos = await with_logo(made), logos_of(made)
    for number in range(MOST_PER_HOST + 5):
        address = f"https://cdn.example.net/{number}.png"
        made.internet.answers[address] = Said(404)
        await logos.of(replace(client, logo=address))

    assert len(made.internet.asked) == MOST_PER_HOST


async def test_what_is_kept_is_bounded() -> None:
    made = ClientsFixture()
    client, logos = await with_logo(made), logos_of(made)
    await logos.of(client)
    for number in range(64):
        address = f"https://cdn{number}.example.net/logo.png"
        made.internet.answers[address] = Said(404)
        await logos.of(replace(client, logo=address))
    before = len(made.internet.asked)

    await logos.of(client)

    assert len(made.internet.asked) == before + 1
