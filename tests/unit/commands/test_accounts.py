"""What `accounts` prints and asks, without a server; the rest is in tests/integration/test_builtin_operator.py."""

import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from nextcloud_mcp_server.commands import accounts, database
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.settings.environment import Settings, load
from nextcloud_mcp_server.storage.crypto import new_key

ISSUER, FORMER = "https://id.example.org", "https://former.example.org"

Capture = pytest.CaptureFixture[str]
Hold = Callable[..., None]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(
        mode="oidc",
        transport="http",
        nextcloud_host="https://cloud.example.org",
        nextcloud_mcp_server_url="https://mcp.example.org",
        oidc_issuer=ISSUER,
        oidc_client_id="mcp",
        nextcloud_oauth_client_id="nextcloud",
        nextcloud_oauth_client_secret="secret of the client",
        token_encryption_keys=new_key(),
        database_url=f"sqlite+aiosqlite:///{tmp_path / 'state.db'}",
    )


@pytest.fixture
def hold(settings: Settings, tmp_path: Path, capsys: Capture) -> Hold:
    """Let a principal hold an account without being connected."""

    def factory(
        uid: str, subject: str, *, issuer: str = ISSUER, url: str = "https://cloud.example.org"
    ) -> None:
        database.upgrade(settings)
        capsys.readouterr()
        row = {"id": uid + url, "issuer": issuer, "subject": subject, "nextcloud_url": url, "uid": uid}
        values = {**row, "display_name": b"sealed", "created_at": "2026-11-27 12:00:00"}
        names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
        with closing(sqlite3.connect(tmp_path / "state.db")) as connection, connection:
            connection.execute(f"INSERT INTO accounts ({names}) VALUES ({places})", values)

    return factory


def test_a_holder_of_a_former_issuer_is_marked(settings: Settings, hold: Hold, capsys: Capture) -> None:
    hold("alice", "sub-1", issuer=FORMER)

    accounts.list_accounts(settings, as_json=False)

    line = capsys.readouterr().out.splitlines()[1]
    assert f"{FORMER} (not configured any more)" in line
    assert "the user" in line


def test_names_cannot_forge_lines(settings: Settings, hold: Hold, capsys: Capture) -> None:
    hold("alice", "x\nbob  https://cloud.example.org\x1b[2J")

    accounts.list_accounts(settings, as_json=False)

    out = capsys.readouterr().out
    assert len(out.splitlines()) == 2
    assert "\x1b" not in out


def test_the_operator_is_asked_first(
    settings: Settings, hold: Hold, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold("alice", "mallory")
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))

    with pytest.raises(ConfigurationError, match="Nothing was released"):
        accounts.release_account(settings, "alice", issuer=None, yes=False)
    assert "mallory" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    accounts.release_account(settings, "alice", issuer=None, yes=False)

    accounts.list_accounts(settings, as_json=True)
    assert capsys.readouterr().out.endswith("[]\n")


def test_of_several_holders_one_must_be_named(settings: Settings, hold: Hold, capsys: Capture) -> None:
    hold("alice", "one", issuer=FORMER, url="https://old.example.org")
    hold("alice", "two")

    with pytest.raises(ConfigurationError, match="--issuer"):
        accounts.release_account(settings, "alice", issuer=None, yes=True)
    accounts.release_account(settings, "alice", issuer=FORMER, yes=True)

    capsys.readouterr()
    accounts.list_accounts(settings, as_json=False)
    assert "two" in capsys.readouterr().out.splitlines()[1]


def test_one_persons_server_has_other_commands() -> None:
    with pytest.raises(ConfigurationError, match="grants revoke"):
        accounts.list_accounts(load(nextcloud_host="https://cloud.example.org"), as_json=False)
