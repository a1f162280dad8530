"""What `grants` prints and refuses without a server; with one, see tests/integration/test_builtin_operator.py."""

import io
import json
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.principal import personal_caller
from nextcloud_mcp_server.commands import grants
from nextcloud_mcp_server.errors import ConfigurationError
from nextcloud_mcp_server.server.services import now, open_database
from nextcloud_mcp_server.settings.environment import Settings, load
from nextcloud_mcp_server.storage.crypto import new_key
from nextcloud_mcp_server.storage.records import (
    Account,
    AuditEntry,
    Credential,
    Permission,
)

Capture = pytest.CaptureFixture[str]
HOME, WORK = "https://home.example.org", "https://work.example.org"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(data_dir=str(tmp_path / "data"))


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("MODE", "builtin")
    return load(
        mode="builtin",
        transport="http",
        nextcloud_host=HOME,
        nextcloud_mcp_server_url="https://mcp.example.org",
        nextcloud_oauth_client_id="nextcloud",
        nextcloud_oauth_client_secret="secret of the client",
        token_encryption_keys=new_key(),
        database_url=f"sqlite+aiosqlite:///{tmp_path / 'state.db'}",
    )


def connect(settings: Settings, url: str, *, client: str = "Claude Code", refused: bool = False) -> None:
    """Store a grant as a consent request leaves it."""

    async def connecting() -> None:
        caller, at = personal_caller(url, client), now()
        async with open_database(settings) as database:
            elicitation, _ = await database.elicitations.open(
                principal=caller.principal,
                client_id=caller.client_id,
                client_name=client,
                kind="page",
                scopes=frozenset({"notes:read", "files:read", "files:write"}),
                ttl=timedelta(minutes=10),
                new_url=lambda one: f"https://mcp.example.org/{one}",
            )
            account = Account(f"account {url}", caller.principal, url, "alice", "Alice", None, at)
            secret = SecretStr("app-password")
            credential = Credential(f"of {url}", account.id, "login_flow_v2", "alice", secret, refused, 1, at)
            permission = Permission(caller.principal, caller.client_id, client, elicitation.scopes, at)
            await database.grants.complete(
                elicitation=elicitation,
                flow=None,
                account=account,
                credential=credential,
                permission=permission,
                audit=AuditEntry(at, caller.principal, caller.client_id, "consent", "granted"),
            )

    anyio.run(connecting)


def revoke(settings: Settings, **options: object) -> None:
    given = {"person": None, "client": None, "every": False, "yes": True} | options
    grants.revoke_grants(settings, **given)  # type: ignore[arg-type]


def test_a_table_says_who_may_do_what_with_which_client(settings: Settings, capsys: Capture) -> None:
    connect(settings, HOME)
    connect(settings, WORK, refused=True)

    grants.list_grants(settings, as_json=False)

    header, home, work = (line.split("  ") for line in capsys.readouterr().out.splitlines())
    assert [cell.strip() for cell in header if cell] == list(grants.HEADER)
    assert [cell.strip() for cell in home if cell] == [
        "alice",
        HOME,
        "Claude Code",
        "local",
        "files:read files:write notes:read",
        "not yet",
        "works",
    ]
    assert work[-1] == "asks again at the next call"


def test_a_name_of_a_client_cannot_pose_as_another_line(settings: Settings, capsys: Capture) -> None:
    connect(settings, HOME, client="a\nbob  \x1b[31m")

    grants.list_grants(settings, as_json=False)
    assert len(capsys.readouterr().out.splitlines()) == 2
    grants.list_grants(settings, as_json=True)
    (grant,) = json.loads(capsys.readouterr().out)
    assert grant["client"]["name"] == "a\nbob  \x1b[31m"


def test_of_several_nextclouds_one_is_named_or_all_are(settings: Settings, capsys: Capture) -> None:
    # Nothing listens there: it is ended here, and at Nextcloud later.
    one, other = "http://127.0.0.1:9", "http://127.0.0.1:7"
    connect(settings, one)
    connect(settings, other)

    with pytest.raises(ConfigurationError, match="There are several: name one with --nextcloud"):
        revoke(settings)
    with pytest.raises(ConfigurationError, match=r"This disconnects every Nextcloud\. Confirm it with --yes"):
        revoke(settings, every=True, yes=False)
    revoke(settings, every=True)

    assert capsys.readouterr().out.splitlines() == [
        f"Disconnected from {url}. Nextcloud has not confirmed it yet: the server will try again."
        for url in (one, other)
    ]
    revoke(settings)
    assert capsys.readouterr().err == "Nothing is connected.\n"


def test_what_would_happen_is_not_told_as_if_it_had(many: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())

    with pytest.raises(
        ConfigurationError, match=r"^This disconnects and signs out every user\. Confirm it with --yes"
    ):
        revoke(many, every=True, yes=False)


@pytest.mark.parametrize("answer", ["n\n", "y\n"])
def test_the_operator_is_asked_before_all_is_ended(
    many: Settings, capsys: Capture, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))

    if answer == "n\n":
        with pytest.raises(ConfigurationError, match="Nothing was ended"):
            revoke(many, every=True, yes=False)
    else:
        revoke(many, every=True, yes=False)
        assert "Every user is disconnected (0)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "needs to know whose: --person"),
        ({"every": True, "person": "alice"}, "leave out --person and --client, or --all"),
        ({"every": True, "client": "claude"}, "leave out --person and --client, or --all"),
        ({"person": "nobody"}, "No user is connected as 'nobody'"),
        ({"client": "nobody"}, "No user allows the client 'nobody' anything"),
    ],
)
def test_what_does_not_say_whose_is_refused(
    many: Settings, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        revoke(many, **options)


@pytest.mark.parametrize("options", [{"person": "alice"}, {"client": "claude"}])
def test_one_persons_server_has_one_person_and_one_grant(
    settings: Settings, options: dict[str, object]
) -> None:
    with pytest.raises(ConfigurationError, match="this is for servers of many users; leave it out"):
        revoke(settings, **options)
