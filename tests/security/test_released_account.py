"""Attack: keep hearing through an open stream after the account was released, or the client signed out."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from nextcloud_mcp_server.auth import ended_accounts
from nextcloud_mcp_server.auth.ended_accounts import EndedAccounts
from nextcloud_mcp_server.demo.wire_client import HandshakeClient
from nextcloud_mcp_server.sandbox.person import Person
from nextcloud_mcp_server.storage.records import AuditEntry, Principal
from tests.consent_fixtures import ConsentSetup
from tests.integration.builtin_app import BuiltinApp, open_builtin_app
from tests.integration.oidc_app import OidcApp, open_oidc_app
from tests.integration.personal_app import until
from tests.issuer_fake import ISSUER

PING: tuple[str, dict[str, Any]] = ("tools/call", {"name": "check_provisioning_status", "arguments": {}})


@pytest.fixture
async def oidc_app(tmp_path: Path) -> AsyncGenerator[OidcApp]:
    async with open_oidc_app(tmp_path / "data", hold_seconds=0) as made:
        yield made


@pytest.fixture
async def builtin_app(tmp_path: Path) -> AsyncGenerator[BuiltinApp]:
    async with open_builtin_app(tmp_path) as made:
        yield made


class Heard:
    """The principals that were told to have lost an account, once for each look that found some."""

    def __init__(self) -> None:
        self.told: list[frozenset[Principal]] = []

    async def __call__(self, principals: frozenset[Principal]) -> None:
        self.told.append(principals)


async def release(server: OidcApp, uid: str) -> None:
    """Do as `accounts release` does, in another process."""
    assert server.parts is not None
    database = (await server.parts.services.get()).database
    (holding,) = [each for each in await database.accounts.all() if each.uid == uid]
    assert await database.accounts.release(holding)


async def hears_the_end(client: HandshakeClient, server: OidcApp, uid: str) -> None:
    """Open a stream, have the account released, and wait until the stream has ended."""
    async with anyio.create_task_group() as group:
        ended = anyio.Event()

        async def hear(*, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401 - the library's
            await client.listen(task_status=task_status)
            ended.set()

        await group.start(hear)
        await release(server, uid)
        with anyio.fail_after(60):
            await ended.wait()


async def test_oidc_ends_the_stream_and_session_of_the_former_holder_of_a_released_account_alone(
    oidc_app: OidcApp,
) -> None:
    token = oidc_app.token("alice")
    async with (
        oidc_app.person("alice") as alice,
        oidc_app.raw(token, capabilities={"elicitation": {"url": {}}}) as client,
        oidc_app.raw(oidc_app.token("bob")) as other,
    ):
        asked = await client.request("tools/call", {"name": "nc_notes_list_notes", "arguments": {}})
        await alice.consent(asked["error"]["data"]["elicitations"][0]["url"])

        await hears_the_end(client, oidc_app, "alice")

        assert (await client.refused(*PING))[0] == 404
        assert "result" in await other.request(*PING)


async def test_a_session_of_the_former_holder_that_no_server_had_open_is_not_taken_up_again(
    oidc_app: OidcApp,
) -> None:
    """The account is released while no server runs, or in the seconds before one is stopped."""
    async with (
        oidc_app.person("alice") as alice,
        oidc_app.raw(oidc_app.token("alice"), capabilities={"elicitation": {"url": {}}}) as client,
        oidc_app.raw(oidc_app.token("bob")) as other,
    ):
        asked = await client.request("tools/call", {"name": "nc_notes_list_notes", "arguments": {}})
        await alice.consent(asked["error"]["data"]["elicitations"][0]["url"])

        await release(oidc_app, "alice")
        await oidc_app.restart()

        assert (await client.refused(*PING))[0] == 404
        assert "result" in await other.request(*PING)


async def test_builtin_ends_the_stream_of_the_former_holder_of_a_released_account(
    builtin_app: BuiltinApp,
) -> None:
    async with httpx2.AsyncClient(timeout=60, follow_redirects=True) as http:
        tokens = await builtin_app.sign_in(Person("alice", "alice", browser=http), http)
    async with builtin_app.raw(tokens["access_token"]) as client:
        await hears_the_end(client, builtin_app, "alice")

        assert (await client.refused(*PING))[0] == 401


async def test_builtin_ends_the_stream_of_a_client_that_its_user_signed_out(builtin_app: BuiltinApp) -> None:
    """Its token would be valid for an hour; so would that of a thief, whose refresh token came twice."""
    async with httpx2.AsyncClient(timeout=60, follow_redirects=True) as http:
        tokens = await builtin_app.sign_in(Person("alice", "alice", browser=http), http)
    async with builtin_app.raw(tokens["access_token"]) as client, anyio.create_task_group() as group:
        ended = anyio.Event()

        async def hear(*, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401 - the library's
            await client.listen(task_status=task_status)
            ended.set()

        await group.start(hear)
        assert builtin_app.parts is not None
        database = (await builtin_app.parts.services.get()).database
        (holding,) = await database.accounts.all()
        assert await database.oauth_tokens.end(holding.principal, client_id=tokens["client_id"]) == 1

        with anyio.fail_after(60):
            await ended.wait()


async def test_each_loss_of_an_account_is_heard_of_once_and_none_from_before_the_start(
    people: ConsentSetup,
) -> None:
    audit, heard = people.database.audit, Heard()
    ended = EndedAccounts(people.database, heard)
    now = people.clock()

    def entry(name: str, result: str) -> AuditEntry:
        return AuditEntry(now, Principal(ISSUER, name), "", "account", result)

    await audit.append([entry("before", "released by the operator")])
    await ended.look()
    await ended.look()
    nothing = list(heard.told)
    await audit.append(
        [
            entry("alice", "released by the operator"),
            entry("bob", "ended: another person's now"),
            entry("carol", "ended: made anew at Nextcloud"),
            entry("dave", "granted"),
        ]
    )
    await ended.look()
    await ended.look()

    assert nothing == []
    assert heard.told == [frozenset(Principal(ISSUER, name) for name in ("alice", "bob", "carol"))]


async def test_the_first_loss_on_an_empty_database_is_heard_of(people: ConsentSetup) -> None:
    heard = Heard()
    ended = EndedAccounts(people.database, heard)
    await ended.look()
    await people.connect("alice")
    (holding,) = await people.database.accounts.all()
    await people.database.accounts.release(holding)

    await ended.look()

    assert heard.told == [frozenset({holding.principal})]


async def test_a_database_that_cannot_be_read_is_asked_again(people: ConsentSetup) -> None:
    """The look of a running server goes on after a failure; here its table is away for one look."""
    heard = Heard()
    people.sql("ALTER TABLE audit RENAME TO away")
    ended = EndedAccounts(people.database, heard)
    with anyio.move_on_after(0.2):
        await ended.run()

    people.sql("ALTER TABLE away RENAME TO audit")
    await ended.look()

    assert heard.told == []


async def test_a_database_that_stays_away_is_logged_once(
    people: ConsentSetup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The look comes every five seconds: a log of an outage would consist of it."""
    monkeypatch.setattr(ended_accounts, "LOOK_SECONDS", 0.001)
    people.sql("ALTER TABLE audit RENAME TO away")
    ended = EndedAccounts(people.database, Heard())

    with caplog.at_level("DEBUG", logger=ended_accounts.__name__):
        async with anyio.create_task_group() as group:
            group.start_soon(ended.run)
            await until(lambda: len(caplog.records) >= 3)
            group.cancel_scope.cancel()

    assert [record.levelname for record in caplog.records[:3]] == ["WARNING", "DEBUG", "DEBUG"]
