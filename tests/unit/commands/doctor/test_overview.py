"""The doctor's summary of a server for many users."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from nextcloud_mcp_server.commands.doctor import report
from nextcloud_mcp_server.commands.doctor.checks import Finding, Verdict
from nextcloud_mcp_server.commands.doctor.overview import look_at_overview
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings, load
from nextcloud_mcp_server.storage.crypto import new_key
from nextcloud_mcp_server.storage.engine import file_url
from nextcloud_mcp_server.storage.failure import Failure
from nextcloud_mcp_server.storage.recognition import SCHEMA_VERSION
from nextcloud_mcp_server.storage.records import ElicitationState
from tests.sealed_rows import ALICE, Rows

Configure = Callable[..., Settings]
START = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
KEY = new_key()


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    def factory(*keys: str, **given: object) -> Settings:
        return load(
            **{
                "mode": "builtin",
                "transport": "http",
                "nextcloud_host": "https://cloud.example.org",
                "nextcloud_mcp_server_url": "https://mcp.example.org",
                "nextcloud_oauth_client_id": "nextcloud",
                "nextcloud_oauth_client_secret": "secret of the client",
                "token_encryption_keys": ",".join(keys or (KEY,)),
                "database_url": file_url(tmp_path / "state.db"),
            }
            | given
        )

    return factory


async def fill(settings: Settings) -> None:
    async with open_database(settings, clock=lambda: START) as database:
        await Rows(database, lambda: START).fill()


async def look(settings: Settings, at: datetime = START) -> dict[str, Finding]:
    return {found.topic: found for found in await look_at_overview(settings, clock=lambda: at)}


async def test_without_a_database_nothing_is_said_and_none_is_made(
    configure: Configure, tmp_path: Path
) -> None:
    assert await look(configure()) == {}
    assert not (tmp_path / "state.db").exists()


async def test_a_database_that_cannot_be_read_is_left_to_its_own_line(
    configure: Configure, tmp_path: Path
) -> None:
    (tmp_path / "state.db").write_bytes(b"this is no database" * 100)

    assert await look(configure()) == {}


async def test_a_healthy_server_is_seen_at_one_glance(configure: Configure) -> None:
    await fill(configure())

    found = await look(configure(), START + timedelta(minutes=1))

    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(
        ("users", "clients", "consent requests", "revocations", "rows", "clean-up", "database size"),
        Verdict.OK,
    )
    assert found["users"].text == (
        "1 connected (0 of them wait for the next token refresh), 0 must consent again"
    )
    assert found["clients"].text == "1 registered, 1 allowed by a user; 1 permissions (0 paused)"
    assert found["consent requests"].text.startswith("2 open; of the last 24 hours 1 complete, 0 declined, ")
    assert found["revocations"].text == "1 are still to be sent to Nextcloud"
    assert found["clean-up"].text == "no row is over its time"
    assert found["database size"].text.endswith(f"kB, schema {SCHEMA_VERSION}")


async def test_no_line_names_a_user_or_a_client(configure: Configure) -> None:
    await fill(configure())

    text = " ".join(one.text for one in (await look(configure())).values()).lower()

    assert [name for name in ("alice", "claude", "codex", "example.org") if name in text] == []


async def test_rows_whose_key_is_missing_are_counted_by_table(configure: Configure) -> None:
    await fill(configure())
    other = configure(new_key())
    async with open_database(other, any_keys=True) as database:
        await database.sealing_keys.settle()

    rows = (await look(other))["rows"]

    assert rows.verdict is Verdict.WARN
    assert "19 were sealed with a key that is missing" in rows.text
    assert "1 of credentials" in rows.text


@pytest.mark.parametrize(
    ("later", "verdict", "text"),
    [
        (timedelta(hours=1), Verdict.OK, "has been over its time for 0 hours"),
        (timedelta(hours=30), Verdict.WARN, "has been over its time for 29 hours: a running server"),
        (timedelta(days=9), Verdict.WARN, "has been over its time for 8 days: a running server"),
    ],
)
async def test_rows_that_nothing_deletes_are_a_warning(
    configure: Configure, later: timedelta, verdict: Verdict, text: str
) -> None:
    await fill(configure())

    found = (await look(configure(), START + later))["clean-up"]

    assert found.verdict is verdict
    assert text in found.text


async def test_audit_entries_count_only_with_a_retention(configure: Configure) -> None:
    await fill(configure())
    year = START + timedelta(days=400)

    kept = (await look(configure(), year))["clean-up"].text
    deleted = (await look(configure(audit_retention_days=10), year))["clean-up"].text

    assert "for 399 days" in kept
    assert "for 399 days" in deleted


async def test_a_revocation_that_fails_is_a_warning(configure: Configure) -> None:
    await fill(configure())
    async with open_database(configure(), clock=lambda: START) as database:
        (item,) = await database.outbox.lease_due(owner="us", lease=timedelta(minutes=1))
        await database.outbox.retry(item.id, START + timedelta(minutes=1))

    found = (await look(configure()))["revocations"]

    assert found.verdict is Verdict.WARN
    assert "1 of them failed before" in found.text


async def test_why_requests_failed_is_counted_by_its_code(configure: Configure) -> None:
    failure = Failure("not_yours", {"answered": "mallory", "yours": "alice"})
    async with open_database(configure(), clock=lambda: START) as database:
        asked, _ = await database.elicitations.open(
            principal=ALICE,
            client_id="claude",
            client_name="Claude",
            kind="provision",
            scopes=frozenset({"notes:read"}),
            ttl=timedelta(minutes=10),
            new_url=str,
        )
        await database.elicitations.finish(asked.id, ElicitationState.FAILED, failure=failure)

    text = (await look(configure()))["consent requests"].text

    assert text.endswith("1 failed, 0 expired (failed: 1 not_yours)")


@pytest.mark.process
def test_the_doctor_of_many_users_shows_it_even_where_nextcloud_is_away(
    configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = configure(nextcloud_host="http://127.0.0.1:9", nextcloud_mcp_server_url="http://localhost:9")
    anyio.run(fill, settings)

    report.check(settings)

    out = capsys.readouterr().out
    assert "users: 1 connected" in out
    assert "database size: " in out
