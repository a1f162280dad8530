"""Which access tokens a logout at the issuer ends (OpenID Connect Back-Channel Logout 1.0)."""

import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from nextcloud_mcp_server.auth.backchannel_logout import LOOK_SECONDS, BackChannelLogout, Claims
from nextcloud_mcp_server.errors import StorageError, TokenRefused
from nextcloud_mcp_server.storage.crypto import KeyRing, new_key
from nextcloud_mcp_server.storage.engine import Database, file_url
from tests.issuer_fixtures import ISSUER, NOW, IdentityProvider, Time, signed
from tests.issuer_fixtures import claims as token_claims

EVENT = "http://schemas.openid.net/event/backchannel-logout"


class Processes:
    """Servers of one operator: each has its own memory, and all share a database."""

    def __init__(self, folder: Path) -> None:
        self.moment = datetime.fromtimestamp(NOW, UTC)
        self.time = Time()
        self.ended: list[Callable[[Claims], bool]] = []
        self._url = file_url(folder / "mcp.db")
        self._keys = KeyRing.parse([SecretStr(new_key())])
        self._provider = IdentityProvider()
        self.database: Database | None = None

    def clock(self) -> datetime:
        return self.moment

    async def open(self, stack: AsyncExitStack) -> None:
        self.database = await Database.open(self._url, keys=self._keys, clock=self.clock)
        stack.push_async_callback(self.database.aclose)

    def start(
        self, *, ended: list[Callable[[Claims], bool]] | None = None, told: anyio.Event | None = None
    ) -> BackChannelLogout:
        assert self.database is not None
        heard = self.ended if ended is None else ended

        async def on_logout(ends: Callable[[Claims], bool]) -> None:
            heard.append(ends)
            if told is not None:
                told.set()

        return BackChannelLogout(
            self.database,
            self._provider.key_set(self.time),
            issuer=ISSUER,
            client_id="us",
            clock=self.clock,
            on_logout=on_logout,
            monotonic=self.time,
        )


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncGenerator[Processes]:
    made = Processes(tmp_path)
    async with AsyncExitStack() as stack:
        await made.open(stack)
        yield made


def logout_token(*, typ: str = "logout+jwt", **changes: object) -> str:
    said: dict[str, Any] = {
        "iss": ISSUER, "sub": "alice", "aud": "us", "iat": NOW, "exp": NOW + 120, "jti": secrets.token_hex(8),
        "events": {EVENT: {}}, **changes,
    }  # fmt: skip
    payload = {name: value for name, value in said.items() if value is not None}
    return signed(payload, header={"typ": typ})


@pytest.mark.parametrize(
    ("token", "logout", "ends"),
    [
        ({}, {}, True),
        ({"iat": NOW}, {}, True),
        ({"iat": NOW + 1}, {}, False),
        ({"sub": "bob"}, {}, False),
        ({"iss": "https://other.test"}, {}, False),
        ({"iss": None}, {}, True),
        ({"iat": None}, {}, True),
        ({"iat": "then"}, {}, True),
        ({"iat": None, "sub": "bob"}, {}, False),
        ({"iat": None, "sid": "two"}, {"sid": "one"}, False),
        ({"sid": "one"}, {"sid": "one"}, True),
        ({"sid": "two"}, {"sid": "one"}, False),
        ({}, {"sid": "one"}, True),
        ({"sid": "one"}, {"sid": "one", "sub": None}, True),
        ({}, {"sid": "one", "sub": None}, False),
        ({"sid": "one"}, {}, True),
    ],
)
async def test_a_logout_ends_the_older_tokens_of_its_person_or_session(
    processes: Processes, token: dict[str, Any], logout: dict[str, Any], *, ends: bool
) -> None:
    """§2.3 and §2.7: a logout names a session, a user, or both."""
    here = processes.start()

    await here.receive(logout_token(**logout))

    if ends:
        with pytest.raises(TokenRefused):
            await here.check(token_claims(**token))
    else:
        await here.check(token_claims(**token))
    assert [end(token_claims(**token)) for end in processes.ended] == [ends]


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "n"},
        {"events": None},
        {"events": {EVENT: "yes"}},
        {"events": [EVENT]},
        {"iat": None},
        {"sub": None},
        {"jti": None},
        {"sub": "x" * 256},
        {"jti": "x" * 256},
        {"typ": "at+jwt"},
        {"aud": "another client"},
    ],
)
async def test_what_is_no_logout_token_is_refused_and_ends_nothing(
    processes: Processes, changes: dict[str, Any]
) -> None:
    """§2.4 and §2.6; no name of an issuer's is longer than 255 characters (OpenID Connect Core 1.0, §2)."""
    here = processes.start()

    with pytest.raises(TokenRefused):
        await here.receive(logout_token(**changes))

    await here.check(token_claims())
    assert processes.ended == []


async def test_the_issuer_is_asked_about_an_opaque_token_that_does_not_say_its_time(
    processes: Processes,
) -> None:
    """RFC 7662 §2.2 makes `iat` optional. What the token had opened ends; a new request asks the issuer again."""
    here = processes.start()

    await here.receive(logout_token())

    await here.check(token_claims(iat=None), introspected=True)
    assert [end(token_claims(iat=None)) for end in processes.ended] == [True]
    with pytest.raises(TokenRefused):
        await here.check(token_claims(), introspected=True)


async def test_a_logout_token_counts_once(processes: Processes) -> None:
    here, token = processes.start(), logout_token(iat=NOW - 100)
    await here.receive(token)

    with pytest.raises(TokenRefused, match="used before"):
        await here.receive(token)

    assert len(processes.ended) == 1


async def test_an_older_logout_behind_a_newer_one_ends_nothing_more(processes: Processes) -> None:
    here = processes.start()
    await here.receive(logout_token())

    await here.receive(logout_token(iat=NOW - 100))

    assert len(processes.ended) == 1
    with pytest.raises(TokenRefused):
        await here.check(token_claims(iat=NOW - 1))


async def test_a_logout_counts_in_a_process_that_starts_later(processes: Processes) -> None:
    await processes.start().receive(logout_token())
    processes.moment += timedelta(hours=23)

    with pytest.raises(TokenRefused):
        await processes.start().check(token_claims())


async def test_another_process_hears_of_a_logout_when_it_looks_again(processes: Processes) -> None:
    heard: list[Callable[[Claims], bool]] = []
    there = processes.start(ended=heard)
    await there.check(token_claims())
    await processes.start().receive(logout_token())

    await there.check(token_claims())
    processes.time.now += LOOK_SECONDS

    with pytest.raises(TokenRefused):
        await there.check(token_claims())
    assert len(heard) == 1


@asynccontextmanager
async def running(logouts: BackChannelLogout) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(logouts.run)
        yield
        group.cancel_scope.cancel()


async def test_an_idle_process_hears_of_a_logout_too_and_outlives_a_failing_database(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nextcloud_mcp_server.auth.backchannel_logout.LOOK_SECONDS", 0.01)
    heard: list[Callable[[Claims], bool]] = []
    told = anyio.Event()
    there = processes.start(ended=heard, told=told)
    assert processes.database is not None
    since, failures = processes.database.logouts.since, 0

    async def failing(received_at: datetime) -> Any:  # noqa: ANN401 - as what it stands before
        nonlocal failures
        failures += 1
        if failures == 1:
            raise StorageError("busy")
        return await since(received_at)

    await processes.start().receive(logout_token())
    monkeypatch.setattr(processes.database.logouts, "since", failing)

    async with running(there):
        with anyio.fail_after(60):
            await told.wait()

    assert failures > 1
    assert heard[0](token_claims())
