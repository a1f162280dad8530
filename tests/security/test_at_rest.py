import sqlite3
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.errors import Unsealable
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    Elicitation,
    ElicitationState,
    LoginResult,
    Permission,
    Principal,
)

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
CANARY = "canary-4f1d"
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


async def ask(database: Database, principal: Principal, client_id: str = "claude") -> Elicitation:
    asked, _ = await database.elicitations.open(
        principal=principal,
        client_id=client_id,
        client_name=f"{CANARY} client",
        kind="provision",
        scopes=frozenset({"notes:read"}),
        ttl=timedelta(minutes=10),
        new_url=lambda elicitation_id: f"https://mcp.example.org/{CANARY}/{elicitation_id}",
    )
    return asked


async def connect(database: Database, principal: Principal, *, secret: str = f"{CANARY} secret") -> None:
    asked = await ask(database, principal)
    flow = await database.login_flows.create(
        elicitation_id=asked.id,
        principal=principal,
        login_url=SecretStr(f"https://cloud.example.org/{CANARY}"),
        poll_token=SecretStr(f"{CANARY} token"),
        scopes=asked.scopes,
        expires_at=NOW + timedelta(minutes=20),
    )
    result = LoginResult(login_name=f"{CANARY} login", app_password=SecretStr(secret))
    await database.login_flows.save_result(flow.id, result)
    name = principal.subject
    account = Account(
        f"account-{name}", principal, "https://cloud.example.org", name, f"{CANARY} name", None, NOW
    )
    credential = Credential(
        f"credential-{name}-{secret}".replace(CANARY, ""),
        account.id,
        "login_flow_v2",
        result.login_name,
        result.app_password,
        needs_reauth=False,
        version=1,
        created_at=NOW,
    )
    permission = Permission(principal, "claude", asked.client_name, asked.scopes, NOW)
    audit = AuditEntry(NOW, principal, "claude", "grant", "ok", f"{CANARY} detail")
    assert await database.grants.complete(
        elicitation=asked,
        flow=flow,
        account=account,
        credential=credential,
        permission=permission,
        audit=audit,
    )


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        assert connection.execute(statement).rowcount > 0
    connection.commit()
    connection.close()


async def test_no_secret_name_or_error_stands_in_clear_in_the_database_or_its_log(
    database: Database, path: Path
) -> None:
    await connect(database, ALICE)
    await connect(database, ALICE, secret=f"{CANARY} second secret")
    failed = await ask(database, BOB)
    await database.elicitations.finish(
        failed.id,
        ElicitationState.FAILED,
        failure=Failure("not_accepted", {"name": f"{CANARY} error"}),
        account_name=f"{CANARY} account",
    )
    waiting = await ask(database, ALICE, "codex")
    await database.elicitations.set_url(waiting.id, f"https://cloud.example.org/login/{CANARY}")
    await database.login_flows.create(
        elicitation_id=waiting.id,
        principal=ALICE,
        login_url=SecretStr(f"https://cloud.example.org/{CANARY}"),
        poll_token=SecretStr(f"{CANARY} token"),
        scopes=waiting.scopes,
        expires_at=NOW,
        uid=f"{CANARY} uid",
    )
    await database.elicitations.set_failure(
        waiting.id, Failure("account_taken", {"answered": f"{CANARY} another account"})
    )

    dump = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.name.startswith(path.name))

    assert b"elicitations" in dump
    assert path.with_name("mcp.db-wal").stat().st_size > 0
    assert CANARY.encode() not in dump
    assert failed.id.encode() not in dump
    assert waiting.id.encode() not in dump


async def test_a_secret_moved_to_another_person_does_not_open(database: Database, path: Path) -> None:
    await connect(database, ALICE)
    await connect(database, BOB)

    change(
        path,
        "UPDATE credentials SET secret = (SELECT secret FROM credentials WHERE subject = 'alice')"
        " WHERE subject = 'bob'",
    )

    with pytest.raises(Unsealable):
        await database.grants.find(BOB, "claude")
    assert await database.grants.find(ALICE, "claude") is not None


async def test_a_secret_moved_to_another_column_does_not_open(database: Database, path: Path) -> None:
    await connect(database, ALICE)

    change(path, "UPDATE credentials SET login_name = secret")

    with pytest.raises(Unsealable):
        await database.grants.find(ALICE, "claude")


async def test_a_secret_moved_to_another_row_of_the_same_person_does_not_open(
    database: Database, path: Path
) -> None:
    first, second = await ask(database, ALICE), await ask(database, ALICE, "codex")

    change(
        path,
        "UPDATE elicitations SET url = (SELECT url FROM elicitations WHERE client_id = 'claude')"
        " WHERE client_id = 'codex'",
    )

    with pytest.raises(Unsealable):
        await database.elicitations.find(second.id)
    assert await database.elicitations.find(first.id) == first


async def test_a_whole_row_handed_to_another_person_does_not_open(database: Database, path: Path) -> None:
    await connect(database, ALICE)

    change(
        path,
        "UPDATE accounts SET subject = 'bob'",
        "UPDATE credentials SET subject = 'bob'",
        "UPDATE permissions SET subject = 'bob'",
    )

    with pytest.raises(Unsealable):
        await database.grants.find(BOB, "claude")


async def test_a_credential_pointed_at_another_persons_account_is_not_found(
    database: Database, path: Path
) -> None:
    await connect(database, ALICE)
    await connect(database, BOB)

    change(
        path,
        "UPDATE credentials SET account_id = 'nowhere' WHERE subject = 'alice'",
        "UPDATE credentials SET account_id = 'account-alice' WHERE subject = 'bob'",
    )

    assert await database.grants.find(ALICE, "claude") is None
    assert await database.grants.find(BOB, "claude") is None
