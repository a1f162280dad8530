import dataclasses
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import Client, CodeGrant, Fresh, Given, Refused
from nextcloud_mcp_server.storage.records import Elicitation, ElicitationState, Principal

Now = Callable[[], datetime]
Ask = Callable[..., Awaitable[Elicitation]]
Complete = Callable[..., Awaitable[object]]
Open = Callable[..., Awaitable[Database]]

DAY = timedelta(days=1)


@pytest.fixture
def client(now: Now) -> Client:
    return Client(
        client_id="mcp-claude",
        kind="registered",
        name="Claude",
        redirect_uris=("https://claude.ai/api/mcp/auth_callback", "http://localhost/callback"),
        auth_method="client_secret_post",
        secret_hash="e3b0c442",
        scopes=frozenset({"notes:read", "files:read"}),
        created_at=now(),
        last_used_at=None,
        native=True,
    )


@pytest.fixture
def document(now: Now) -> Client:
    return Client(
        client_id="https://vscode.dev/oauth/client-metadata.json",
        kind="document",
        name="Visual Studio Code",
        redirect_uris=("http://127.0.0.1/",),
        auth_method="none",
        secret_hash=None,
        scopes=None,
        created_at=now() + DAY,
        last_used_at=None,
        native=True,
    )


async def test_a_client_is_found_by_its_id_as_it_was_stored(
    database: Database, client: Client, document: Client
) -> None:
    await database.clients.save(document)
    await database.clients.save(client)

    assert await database.clients.find(client.client_id) == client
    assert await database.clients.find(document.client_id) == document
    assert await database.clients.find("mcp-other") is None
    assert await database.clients.find("mcp-\0") is None
    assert await database.clients.all() == [client, document]


async def test_what_is_read_again_takes_the_place_of_what_was_and_keeps_its_last_use(
    database: Database, document: Client, now: Now
) -> None:
    await database.clients.save(document)
    await database.clients.used(document.client_id, at=now())
    renewed = dataclasses.replace(document, name="Code", created_at=now() + 2 * DAY)

    await database.clients.save(renewed)

    assert await database.clients.all() == [dataclasses.replace(renewed, last_used_at=now())]


async def test_the_last_use_is_noted(database: Database, client: Client, now: Now) -> None:
    await database.clients.save(client)

    await database.clients.used(client.client_id, at=now() + DAY)

    assert await database.clients.find(client.client_id) == dataclasses.replace(
        client, last_used_at=now() + DAY
    )


async def test_a_client_whose_key_is_missing_counts_as_none(
    database: Database, client: Client, open_database: Open
) -> None:
    await database.clients.save(client)

    other = await open_database(other_keys=KeyRing.parse([SecretStr(new_key())]))

    assert await other.clients.find(client.client_id) is None
    assert await other.clients.all() == []


async def test_a_clients_description_moved_to_another_does_not_open(
    database: Database, client: Client, document: Client, execute: Callable[..., Awaitable[object]]
) -> None:
    await database.clients.save(client)
    await database.clients.save(document)

    await execute("UPDATE clients SET details = (SELECT details FROM clients WHERE client_id = 'mcp-claude')")

    assert await database.clients.all() == [client]


async def test_clients_that_are_over_are_forgotten(database: Database, client: Client, now: Now) -> None:
    ages = {"unused": (1, None), "new": (0, None), "idle": (9, 8), "used": (9, 1), "again": (1, 8)}
    for name, (made, used) in ages.items():
        made_at, used_at = now() - made * DAY, None if used is None else now() - used * DAY
        await database.clients.save(
            dataclasses.replace(client, client_id=name, created_at=made_at, last_used_at=used_at)
        )

    gone = await database.clients.purge(
        unused_before=now() - DAY / 2, idle_before=now() - 7 * DAY, most_unused=10
    )

    assert gone == 2
    assert {one.client_id for one in await database.clients.all()} == {"new", "used", "again"}


async def test_of_the_clients_that_were_never_used_only_the_newest_are_kept(
    database: Database, client: Client, now: Now
) -> None:
    for name, age in {"old": 3, "newest": 1, "newer": 2}.items():
        registered = dataclasses.replace(client, client_id=name, created_at=now() - age * DAY)
        await database.clients.save(registered)
    await database.clients.save(
        dataclasses.replace(client, client_id="used", created_at=now() - 9 * DAY, last_used_at=now())
    )

    gone = await database.clients.purge(
        unused_before=now() - 7 * DAY, idle_before=now() - 30 * DAY, most_unused=2
    )

    assert gone == 1
    assert {one.client_id for one in await database.clients.all()} == {"newest", "newer", "used"}


async def test_a_removed_clients_codes_and_tokens_end_with_it(
    database: Database, client: Client, alice: Principal, now: Now
) -> None:
    await database.clients.save(client)
    grant = CodeGrant(client.client_id, alice, "uri", frozenset(), "challenge", "resource", None)
    soon = now() + DAY
    for code in ("one", "two", "three"):
        await database.oauth_tokens.add_code(code, grant, expires_at=soon)
    fresh = Fresh("family", "refresh", "access", soon, soon)
    given = await database.oauth_tokens.exchange_code(
        "one", client_id=client.client_id, fits=lambda _: True, fresh=fresh
    )

    removed = [await database.clients.delete(client.client_id) for _ in range(2)]

    assert given == Given("refresh", frozenset())
    assert removed == [True, False]
    assert await database.oauth_tokens.find("access") is None
    assert await database.oauth_tokens.exchange_code(
        "two", client_id=client.client_id, fits=lambda _: True, fresh=fresh
    ) == Refused("unknown")
    assert [entry.result for entry in await database.audit.recent(alice, 5)] == [
        "ended: the client was removed"
    ]


async def test_what_people_allowed_a_removed_client_ends_with_it(
    database: Database, client: Client, alice: Principal, complete: Complete, ask: Ask
) -> None:
    await database.clients.save(client)
    for client_id in (client.client_id, "another"):
        await complete(await ask(client_id=client_id))
    asked, others = await ask(client_id=client.client_id), await ask(client_id="another")

    await database.clients.delete(client.client_id)

    assert [one.client_id for one in await database.grants.permissions(alice)] == ["another"]
    assert await database.grants.find(alice, "") is not None
    states = [await database.elicitations.find(one.id) for one in (asked, others)]
    assert [one and one.state for one in states] == [ElicitationState.EXPIRED, others.state]


async def test_what_people_allowed_outlives_the_absence_of_a_document_and_of_no_registered_client(
    *,
    database: Database,
    client: Client,
    document: Client,
    alice: Principal,
    complete: Complete,
    ask: Ask,
    now: Now,
) -> None:
    """No one gets the id of a registered client again, while a document keeps its address."""
    for one in (client, document):
        await database.clients.save(dataclasses.replace(one, created_at=now() - 9 * DAY))
        await complete(await ask(client_id=one.client_id))

    await database.clients.purge(unused_before=now() - DAY, idle_before=now() - 7 * DAY, most_unused=10)

    assert await database.clients.all() == []
    assert [one.client_id for one in await database.grants.permissions(alice)] == [document.client_id]
