"""What `audit` prints without a server; with one, see tests/integration/test_builtin_operator.py."""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from nextcloud_mcp_server.commands import audit
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server.services import now, open_database
from nextcloud_mcp_server.settings.environment import Settings, load
from nextcloud_mcp_server.storage.records import AuditEntry, Principal

Capture = pytest.CaptureFixture[str]
ALICE = Principal("personal", "https://cloud.example.org")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(nextcloud_host=ALICE.subject, data_dir=str(tmp_path / "data"))


def append(settings: Settings, ages: Sequence[timedelta], detail: str = "note_id=1") -> None:
    async def appending() -> None:
        async with open_database(settings) as database:
            await database.audit.append(
                [AuditEntry(now() - age, ALICE, "local", f"call {index}", "ok", detail, "r1")
                 for index, age in enumerate(ages)]
            )  # fmt: skip

    anyio.run(appending)


def listed(settings: Settings, capsys: Capture, *, since: str | None = None, limit: int = 50) -> list[str]:
    capsys.readouterr()
    audit.list_entries(settings, since=since, person=None, limit=limit, as_json=True)
    return [entry["action"] for entry in json.loads(capsys.readouterr().out)]


def test_a_table_has_the_newest_entry_last(settings: Settings, capsys: Capture) -> None:
    append(settings, [timedelta(hours=2), timedelta()])

    audit.list_entries(settings, since=None, person=None, limit=50, as_json=False)

    header, first, second = capsys.readouterr().out.splitlines()
    assert header.startswith("TIME (UTC)")
    assert "call 0" in first
    assert "call 1  ok      note_id=1  r1" in second


@pytest.mark.parametrize("control", ["\x1b", "\x7f", "\x9b", "\u2028", "\u202e", "\u2066"])
@pytest.mark.parametrize("every", [False, True])
def test_a_text_in_an_entry_cannot_control_the_terminal_as_json(
    settings: Settings, capsys: Capture, control: str, *, every: bool
) -> None:
    """A terminal takes U+009B for the beginning of a control sequence, and JSON may hold it as it is."""
    append(settings, [timedelta()], detail=f"path=a{control}31mé")

    if every:
        audit.export_entries(settings, since=None, person=None)
    else:
        audit.list_entries(settings, since=None, person=None, limit=50, as_json=True)

    printed = capsys.readouterr().out
    assert control not in printed
    assert f"path=a\\u{ord(control):04x}31mé" in printed
    (entry,) = [json.loads(printed)] if every else json.loads(printed)
    assert entry["object"] == f"path=a{control}31mé"


def test_a_text_in_an_entry_cannot_pose_as_another_line(settings: Settings, capsys: Capture) -> None:
    append(settings, [timedelta()], detail="a\nb\x1b[31m")

    audit.list_entries(settings, since=None, person=None, limit=50, as_json=False)

    assert "a\\nb\\x1b[31m" in capsys.readouterr().out.splitlines()[1]


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (None, ["call 0", "call 1", "call 2"]),
        ("90m", ["call 2"]),
        ("3h", ["call 1", "call 2"]),
        ("1d", ["call 1", "call 2"]),
        ("5w", ["call 0", "call 1", "call 2"]),
        ("2020-01-31", ["call 0", "call 1", "call 2"]),
        ("2020-01-31T09:15+02:00", ["call 0", "call 1", "call 2"]),
        ("2999-01-31T09:15", []),
    ],
)
def test_entries_of_a_time(
    settings: Settings, capsys: Capture, since: str | None, expected: list[str]
) -> None:
    append(settings, [timedelta(days=30), timedelta(hours=2), timedelta()])

    assert listed(settings, capsys, since=since) == expected


def test_the_latest_entries_are_listed_and_all_are_exported(settings: Settings, capsys: Capture) -> None:
    append(settings, [timedelta()] * 1_200)

    assert listed(settings, capsys, limit=2) == ["call 1198", "call 1199"]
    audit.export_entries(settings, since=None, person=None)
    exported = [json.loads(line)["action"] for line in capsys.readouterr().out.splitlines()]
    assert exported == [f"call {index}" for index in reversed(range(1_200))]


@pytest.mark.parametrize("since", ["yesterday", "7", "d7", "-7d", "2026-13-01", ""])
def test_a_time_that_is_none_is_refused_with_examples(settings: Settings, since: str) -> None:
    with pytest.raises(ConfigurationError, match="write 30m, 12h, 7d, 4w"):
        audit.list_entries(settings, since=since, person=None, limit=50, as_json=False)


def test_an_unknown_person_is_refused(settings: Settings) -> None:
    append(settings, [timedelta()])

    with pytest.raises(ConfigurationError, match="No user is known here as 'nobody'"):
        audit.export_entries(settings, since=None, person="nobody")


def test_a_person_who_holds_no_account_any_more_is_found_by_the_subject(
    settings: Settings, capsys: Capture
) -> None:
    append(settings, [timedelta()])

    audit.export_entries(settings, since=None, person=ALICE.subject)

    assert json.loads(capsys.readouterr().out)["subject"] == ALICE.subject


def test_without_a_database_there_is_nothing_and_none_is_made(settings: Settings, capsys: Capture) -> None:
    audit.list_entries(settings, since=None, person=None, limit=50, as_json=False)
    audit.export_entries(settings, since=None, person=None)

    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "The audit log has no such entry.\n")
    assert settings.data_dir is not None
    assert not settings.data_dir.exists()
