from dataclasses import replace

import pytest

from nextcloud_mcp_server.auth.builtin.clients import Clients, authenticate, secret_hash
from nextcloud_mcp_server.errors import OAuthRefusal
from nextcloud_mcp_server.storage.oauth_records import Client
from tests.clients_fixtures import START, Clock, MemoryClients

CLIENT = Client(
    client_id="mcp-a",
    kind="registered",
    name="App",
    redirect_uris=("https://app.example.org/cb",),
    auth_method="none",
    secret_hash=None,
    scopes=None,
    created_at=START,
    last_used_at=None,
    native=False,
)


def harness(client: Client = CLIENT) -> tuple[Clients, MemoryClients, Clock]:
    clock, records = Clock(), MemoryClients({client.client_id: client})
    return Clients(records, clock=clock.now), records, clock


async def test_an_unregistered_client_is_not_found() -> None:
    clients, _, _ = harness()

    assert await clients.find("mcp-b") is None


async def test_a_client_that_is_never_used_expires_after_a_day() -> None:
    clients, records, clock = harness()

    clock.go(hours=23)
    assert await clients.find("mcp-a") == CLIENT
    assert await clients.purge() == 0
    clock.go(hours=1, seconds=1)
    assert await clients.find("mcp-a") is None
    assert await clients.purge() == 1
    assert records.rows == {}


async def test_a_used_client_expires_after_ninety_idle_days() -> None:
    clients, records, clock = harness()
    await clients.touch(CLIENT)

    clock.go(days=89)
    assert await clients.find("mcp-a") is not None
    assert await clients.purge() == 0
    clock.go(days=1, seconds=1)
    assert await clients.find("mcp-a") is None
    assert await clients.purge() == 1
    assert records.rows == {}


async def test_a_client_that_is_registered_again_lives_on() -> None:
    clients, records, clock = harness(replace(CLIENT, last_used_at=START))
    clock.go(days=100)
    await records.save(replace(CLIENT, created_at=clock.now()))

    assert await clients.find("mcp-a") is not None
    assert await clients.purge() == 0


async def test_a_use_is_written_once_a_day() -> None:
    clients, records, clock = harness()

    for _ in range(3):
        await clients.touch(records.rows["mcp-a"])
        clock.go(hours=12)

    assert records.writes == 2


def test_a_public_client_has_nothing_to_prove() -> None:
    authenticate(CLIENT, None)
    authenticate(CLIENT, "anything")


@pytest.mark.parametrize("given", [None, "", "wrong", "wröng", "\ud800", secret_hash("right")])
def test_a_secret_that_is_missing_or_wrong_is_refused(given: str | None) -> None:
    client = replace(CLIENT, auth_method="client_secret_post", secret_hash=secret_hash("right"))

    authenticate(client, "right")
    with pytest.raises(OAuthRefusal, match="missing or wrong") as caught:
        authenticate(client, given)

    assert (caught.value.error, caught.value.status) == ("invalid_client", 401)
