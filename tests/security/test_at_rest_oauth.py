import sqlite3
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    Elicitation,
    GrantRequest,
    PendingGrant,
    Permission,
    Principal,
    SignedIn,
    Tokens,
)

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
SOON = NOW + timedelta(minutes=10)
CANARY = "canary-7a3e"
URL = "https://cloud.example.org"
ALICE, BOB = (Principal("https://issuer.example.org", name) for name in ("alice", "bob"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mcp.db"


@pytest.fixture
async def database(path: Path) -> AsyncGenerator[Database]:
    database = await Database.open(
        file_url(path), keys=KeyRing.parse([SecretStr(new_key())]), clock=lambda: NOW
    )
    yield database
    await database.aclose()


def tokens(name: str) -> Tokens:
    return Tokens(SecretStr(f"{CANARY} access of {name}"), SecretStr(f"{CANARY} refresh of {name}"), SOON)


async def ask(database: Database, principal: Principal, client_id: str = "claude") -> Elicitation:
    asked, _ = await database.elicitations.open(
        principal=principal,
        client_id=client_id,
        client_name="Claude",
        kind="page",
        scopes=frozenset({"notes:read"}),
        ttl=timedelta(minutes=10),
        new_url=str,
    )
    return asked


async def connect(database: Database, principal: Principal) -> None:
    asked, name = await ask(database, principal), principal.subject
    given = tokens(name)
    await database.grants.complete(
        elicitation=asked,
        flow=None,
        account=Account(f"account-{name}", principal, URL, name, f"{CANARY} name", None, NOW),
        credential=Credential(
            f"credential-{name}",
            f"account-{name}",
            "nextcloud_oauth2",
            f"{CANARY} login",
            given.access_token,
            needs_reauth=False,
            version=1,
            created_at=NOW,
            refresh_token=given.refresh_token,
            expires_at=SOON,
        ),
        permission=Permission(principal, "claude", "Claude", asked.scopes, NOW),
        audit=AuditEntry(NOW, principal, "claude", "grant", "ok"),
    )


async def depart(database: Database, principal: Principal, state: str) -> None:
    asked = await ask(database, principal, "request")
    grant_request = GrantRequest(
        state=SecretStr(state),
        elicitation_id=asked.id,
        principal=principal,
        scopes=asked.scopes,
        redirect_uri=f"https://mcp.example.org/{CANARY}",
        verifier=SecretStr(f"{CANARY} verifier of {state}"),
        nonce=SecretStr(f"{CANARY} nonce"),
        created_at=NOW,
        expires_at=SOON,
    )
    await database.grant_requests.create(grant_request, sign_in=f"{CANARY} browser")


async def hold(database: Database, principal: Principal, client_id: str = "held") -> str:
    asked = await ask(database, principal, client_id)
    held = PendingGrant(
        elicitation_id=asked.id,
        principal=principal,
        scopes=asked.scopes,
        provider="nextcloud_oauth2",
        tokens=tokens(f"held {principal.subject} {client_id}"),
        uid=f"{CANARY} uid",
        display_name=f"{CANARY} name",
        storage_id=f"{CANARY} home",
        expires_at=SOON,
    )
    await database.pending_grants.hold(held, sign_in=f"{CANARY} browser")
    return asked.id


async def sign_in(database: Database, token: str, principal: Principal) -> None:
    signed_in = SignedIn(principal, f"{CANARY} name of {principal.subject}", f"{CANARY} uid", NOW, SOON)
    await database.sign_ins.create(token, signed_in)


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute(statement).rowcount > 0
    connection.commit()
    connection.close()


async def test_no_token_state_cookie_or_name_stands_in_clear_in_the_database_or_its_log(
    database: Database, path: Path
) -> None:
    await sign_in(database, f"{CANARY} browser", ALICE)
    await connect(database, ALICE)
    await database.grants.store_refreshed("credential-alice", version=1, tokens=tokens("refreshed"))
    await database.grants.keep_alternate("credential-alice", tokens("late"))
    await depart(database, ALICE, f"{CANARY} state")
    elicitation_id = await hold(database, ALICE)
    await hold(database, ALICE)
    await database.pending_grants.release_due(nextcloud_url=URL)
    await database.failed_exchanges.failed(ALICE, sign_in=f"{CANARY} browser")
    await connect(database, BOB)
    await database.grants.disconnect(BOB, audit=AuditEntry(NOW, BOB, "claude", "disconnect", "done"))

    dump = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.name.startswith(path.name))

    assert b"pending_grants" in dump
    assert path.with_name("mcp.db-wal").stat().st_size > 0
    assert CANARY.encode() not in dump
    assert elicitation_id.encode() not in dump


@pytest.mark.parametrize("column", ["secret", "refresh_token", "alternate"])
async def test_a_token_moved_to_another_person_does_not_open(
    database: Database, path: Path, column: str
) -> None:
    for person in (ALICE, BOB):
        await connect(database, person)
        await database.grants.keep_alternate(f"credential-{person.subject}", tokens("late"))

    change(
        path,
        f"UPDATE credentials SET {column} = (SELECT {column} FROM credentials WHERE subject = 'alice')"
        " WHERE subject = 'bob'",
    )

    with pytest.raises(Unsealable):
        await database.grants.find(BOB, "claude")
    assert await database.grants.find(ALICE, "claude") is not None


async def test_a_refresh_token_moved_to_where_the_access_token_belongs_does_not_open(
    database: Database, path: Path
) -> None:
    await connect(database, ALICE)

    change(path, "UPDATE credentials SET secret = refresh_token")

    with pytest.raises(Unsealable):
        await database.grants.lease("credential-alice", owner="one", lease=timedelta(seconds=1))


async def test_a_browser_handed_to_another_person_is_not_signed_in(database: Database, path: Path) -> None:
    await sign_in(database, "browser of bob", BOB)

    change(path, "UPDATE sign_ins SET subject = 'alice'")

    assert await database.sign_ins.find("browser of bob") is None


async def test_a_name_moved_to_another_browser_of_the_same_person_does_not_open(
    database: Database, path: Path
) -> None:
    await sign_in(database, "browser-1", ALICE)
    await sign_in(database, "browser-2", ALICE)

    change(path, "UPDATE sign_ins SET uid = (SELECT uid FROM sign_ins ORDER BY token_hash LIMIT 1)")

    found = [await database.sign_ins.find(token) for token in ("browser-1", "browser-2")]
    assert found.count(None) == 1


async def test_a_consent_request_moved_to_another_flow_does_not_come_back(
    database: Database, path: Path
) -> None:
    await depart(database, ALICE, "state of alice")
    await depart(database, BOB, "state of bob")

    change(
        path,
        "UPDATE grant_requests SET elicitation_id ="
        " (SELECT elicitation_id FROM grant_requests WHERE subject = 'alice') WHERE subject = 'bob'",
    )

    assert await database.grant_requests.take("state of bob", sign_in=f"{CANARY} browser") is None
    assert await database.grant_requests.take("state of alice", sign_in=f"{CANARY} browser") is not None


@pytest.mark.parametrize("column", ["tokens", "uid", "elicitation_id"])
async def test_what_is_held_for_one_consent_request_does_not_open_for_another(
    database: Database, path: Path, column: str
) -> None:
    first, second = await hold(database, ALICE), await hold(database, BOB)

    change(
        path,
        f"UPDATE pending_grants SET {column} = (SELECT {column} FROM pending_grants WHERE subject = 'alice')"
        " WHERE subject = 'bob'",
    )

    with pytest.raises(Unsealable):
        await database.pending_grants.find(second, sign_in=f"{CANARY} browser")
    assert await database.pending_grants.find(first, sign_in=f"{CANARY} browser") is not None
