"""What `keys status` and `keys rotate` print and ask, over a real database."""

import io
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.commands import keys
from nextcloud_mcp_server.errors import ConfigurationError, StorageError
from nextcloud_mcp_server.server.services import open_database
from nextcloud_mcp_server.settings.environment import Settings, load
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database
from nextcloud_mcp_server.storage.oauth_records import Client
from tests.sealed_rows import Rows

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
Configure = Callable[..., Settings]

NEW, OLD = new_key(), new_key()
#: What `Rows.fill` stores, over all tables.
ROWS = 19


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    def factory(*keys: str) -> Settings:
        return load(
            mode="oidc",
            transport="http",
            nextcloud_host="https://cloud.example.org",
            nextcloud_mcp_server_url="https://mcp.example.org",
            oidc_issuer="https://id.example.org",
            oidc_client_id="mcp",
            nextcloud_oauth_client_id="nextcloud",
            nextcloud_oauth_client_secret="secret of the client",
            token_encryption_keys=",".join(keys),
            database_url=f"sqlite+aiosqlite:///{tmp_path / 'state.db'}",
        )

    return factory


@pytest.fixture
def filled(configure: Configure) -> None:
    """Store rows that the old key seals."""

    async def fill() -> None:
        async with open_database(configure(OLD)) as database:
            await Rows(database, lambda: datetime.now(UTC)).fill()

    anyio.run(fill)


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount == 1


def ids(*texts: str) -> list[str]:
    return [KeyRing.parse([SecretStr(text)]).ids[0].hex() for text in texts]


def lines(out: str) -> list[list[str]]:
    return [re.split(r"  +", line) for line in out.splitlines()]


@pytest.mark.usefixtures("filled")
def test_the_status_counts_rows_by_key_and_says_what_an_old_key_still_seals(
    configure: Configure, capsys: Capture
) -> None:
    new, old = ids(NEW, OLD)

    keys.status(configure(NEW, OLD))

    out, err = capsys.readouterr()
    assert lines(out) == [["KEY", "PLACE", "ROWS"], [new, "1 (seals)", "0"], [old, "2", f"{ROWS}"]]
    assert "Key 2 of TOKEN_ENCRYPTION_KEYS must stay" in err
    assert "2 of authorization_transactions" in err
    assert "keys rotate" in err


@pytest.mark.usefixtures("filled")
def test_a_key_that_is_not_configured_is_listed_with_what_it_sealed(
    configure: Configure, capsys: Capture
) -> None:
    keys.status(configure(NEW))

    out, err = capsys.readouterr()
    assert lines(out)[2] == [*ids(OLD), "missing", f"{ROWS}"]
    assert "put the key back into TOKEN_ENCRYPTION_KEYS" in err


@pytest.mark.usefixtures("filled")
def test_after_a_rotation_the_old_key_can_be_removed(configure: Configure, capsys: Capture) -> None:
    keys.rotate(configure(NEW, OLD), yes=True, pause=anyio.lowlevel.checkpoint)
    keys.status(configure(NEW))

    out, err = capsys.readouterr()
    assert f"Rows that are sealed with the first key now: {ROWS}." in out
    assert f"{ROWS} of {ROWS} rows" in err
    assert "Key 2 of TOKEN_ENCRYPTION_KEYS seals nothing any more. Remove it there" in err
    assert "missing" not in out


@pytest.mark.usefixtures("filled")
def test_a_lost_key_is_given_up_only_when_that_is_said(configure: Configure, capsys: Capture) -> None:
    with pytest.raises(ConfigurationError, match="Is the right key lost"):
        keys.rotate(configure(NEW), yes=False)
    with pytest.raises(ConfigurationError, match="was sealed with another key"):
        anyio.run(opened, configure(NEW))

    keys.rotate(configure(NEW), yes=True)

    anyio.run(opened, configure(NEW))
    assert "what a missing key sealed is not read any more" in capsys.readouterr().err


@pytest.mark.usefixtures("filled")
def test_after_a_rotation_the_former_key_alone_is_refused(configure: Configure) -> None:
    keys.rotate(configure(NEW, OLD), yes=True, pause=anyio.lowlevel.checkpoint)

    anyio.run(opened, configure(NEW))
    with pytest.raises(ConfigurationError, match=ids(NEW)[0]):
        anyio.run(opened, configure(OLD))


async def opened(settings: Settings) -> None:
    async with open_database(settings):
        pass


@pytest.mark.usefixtures("filled")
def test_a_second_rotation_says_that_there_is_nothing_to_do(configure: Configure, capsys: Capture) -> None:
    keys.rotate(configure(NEW, OLD), yes=True, pause=anyio.lowlevel.checkpoint)
    capsys.readouterr()

    keys.rotate(configure(NEW, OLD), yes=False)

    assert capsys.readouterr().out.startswith("No row is sealed with an older key")


@pytest.mark.usefixtures("filled")
def test_values_that_do_not_open_are_counted_and_the_rest_is_sealed(
    configure: Configure, tmp_path: Path, capsys: Capture
) -> None:
    change(tmp_path / "state.db", "UPDATE accounts SET display_name = (SELECT uid FROM sign_ins)")

    keys.rotate(configure(NEW, OLD), yes=True, pause=anyio.lowlevel.checkpoint)

    out, err = capsys.readouterr()
    assert f"sealed with the first key now: {ROWS - 1}." in out
    assert "stay as they are: 1 (in accounts)" in err
    assert "must stay: it seals 1 of accounts" in err


@pytest.mark.usefixtures("filled")
def test_a_rotation_asks_whether_the_servers_have_the_new_key(
    configure: Configure, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    with pytest.raises(ConfigurationError, match="Nothing was sealed again") as refused:
        keys.rotate(configure(NEW, OLD), yes=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(ConfigurationError, match="--yes") as unasked:
        keys.rotate(configure(NEW, OLD), yes=False)
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    keys.rotate(configure(NEW, OLD), yes=False, pause=anyio.lowlevel.checkpoint)

    assert "TOKEN_ENCRYPTION_KEYS" in str(refused.value)
    assert "TOKEN_ENCRYPTION_KEYS" in str(unasked.value)
    assert f"sealed with the first key now: {ROWS}." in capsys.readouterr().out


@pytest.mark.usefixtures("filled")
def test_a_server_that_goes_on_with_the_old_key_is_noticed(configure: Configure) -> None:
    """The server writes a client after each batch, sealed with the key that should be retired."""
    written = 1

    async def write() -> None:
        nonlocal written
        written += 1
        ring = KeyRing.parse([SecretStr(OLD)])
        url = configure(OLD).database_address
        server = await Database.open(url, keys=ring, clock=lambda: datetime.now(UTC))
        now = datetime.now(UTC)
        await server.clients.save(
            Client(f"mcp-{written}", "registered", "Client", (), "none", None, None, now, None, native=True)
        )
        await server.aclose()

    with pytest.raises(StorageError, match="Restart it with these keys") as refused:
        keys.rotate(configure(NEW, OLD), yes=True, pause=write)

    assert "TOKEN_ENCRYPTION_KEYS" in str(refused.value)


def test_the_place_of_the_keys_is_named_as_it_was_given(tmp_path: Path, monkeypatch: Patch) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{NEW}\n{OLD}\n")
    monkeypatch.setenv("TOKEN_ENCRYPTION_KEYS_FILE", str(file))
    personal = {"nextcloud_host": "https://cloud.example.org", "data_dir": tmp_path}

    given = load(**personal).key_source
    monkeypatch.delenv("TOKEN_ENCRYPTION_KEYS_FILE")
    made = load(**personal).key_source

    assert given == "TOKEN_ENCRYPTION_KEYS_FILE"
    assert made == str(tmp_path / "encryption.key")
