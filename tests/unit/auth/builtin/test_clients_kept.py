"""What is promised of kept clients holds for the repository in memory and for the database alike."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.builtin.clients import ClientRecords, Clients, authenticate
from nextcloud_mcp_server.auth.builtin.documents import ClientDocuments
from nextcloud_mcp_server.auth.builtin.registration import Registration
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from tests.clients_fixtures import APP, DOCUMENT, RULES, Clock, Internet, MemoryClients

ADDRESS = "192.0.2.1"
PUBLIC = {
    "redirect_uris": ["http://localhost/cb"],
    "token_endpoint_auth_method": "none",
    "client_name": "App",
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "database"])
async def records(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> AsyncGenerator[ClientRecords]:
    if request.param == "memory":
        yield MemoryClients()
        return
    keys = KeyRing.parse([SecretStr(new_key())])
    database = await Database.open(file_url(tmp_path / "mcp.db"), keys=keys, clock=clock.now)
    yield database.clients
    await database.aclose()


def registration(records: ClientRecords, clock: Clock) -> Registration:
    return Registration(records, RULES, clock=clock.now, monotonic=clock.monotonic)


async def test_a_public_client_is_found_after_a_restart_by_its_own_id(
    records: ClientRecords, clock: Clock
) -> None:
    first = await registration(records, clock).register(PUBLIC, address=ADDRESS)
    second = await registration(records, clock).register(PUBLIC, address=ADDRESS)

    client = await records.find(first["client_id"])
    assert first["client_id"] != second["client_id"]
    assert client is not None
    assert (client.name, client.redirect_uris, client.native) == ("App", ("http://localhost/cb",), True)


async def test_a_secret_still_opens_after_a_restart(records: ClientRecords, clock: Clock) -> None:
    asked = {"redirect_uris": ["https://app.example.org/cb"], "scope": "notes:read"}
    answer = await registration(records, clock).register(asked, address=ADDRESS)

    client = await Clients(records, clock=clock.now).find(answer["client_id"])

    assert client is not None
    assert client.scopes == {"notes:read"}
    authenticate(client, answer["client_secret"])


async def test_of_unused_clients_a_limited_number_stays(records: ClientRecords, clock: Clock) -> None:
    made: list[str] = []
    for _ in range(5):
        answer = await registration(records, clock).register(PUBLIC, address=ADDRESS)
        made.append(str(answer["client_id"]))
        clock.go(seconds=1)
    await records.used(made[0], at=clock.now())
    day = timedelta(days=1)

    gone = await records.purge(unused_before=clock.now() - day, idle_before=clock.now() - day, most_unused=2)

    left = [client_id for client_id in made if await records.find(client_id)]
    assert gone == 2
    assert left == [made[0], made[3], made[4]]


async def test_the_unused_go_after_a_day_and_the_idle_after_ninety(
    records: ClientRecords, clock: Clock
) -> None:
    clients = Clients(records, clock=clock.now)
    used = await registration(records, clock).register(PUBLIC, address=ADDRESS)
    unused = await registration(records, clock).register(PUBLIC | {"client_name": "Unused"}, address=ADDRESS)
    found = await records.find(used["client_id"])
    assert found is not None
    await clients.touch(found)

    clock.go(days=2)
    assert await clients.purge() == 1
    assert await records.find(unused["client_id"]) is None
    clock.go(days=89)
    assert await clients.purge() == 1
    assert await records.find(used["client_id"]) is None


async def test_a_document_is_kept_as_it_was_read_last(records: ClientRecords, clock: Clock) -> None:
    internet = Internet()
    internet.put(APP, DOCUMENT)
    documents = ClientDocuments(records, RULES, internet.open(), clock=clock.now, monotonic=clock.monotonic)
    first = await documents.get(APP)
    assert await records.find(APP) == first
    internet.put(APP, DOCUMENT | {"client_name": "Renamed"})
    clock.go(hours=2)

    await documents.get(APP)

    assert await records.find(APP) == replace(first, name="Renamed", created_at=clock.now())
