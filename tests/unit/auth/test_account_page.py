import pytest

from nextcloud_mcp_server.errors import InvalidInput, Unreachable
from nextcloud_mcp_server.storage.records import AuditEntry, Principal
from tests.auth_fixtures import READ, WRITE
from tests.consent_fixtures import Browser, ConsentSetup


async def two_clients(harness: ConsentSetup) -> Browser:
    """Alice with two clients, beside Bob with one."""
    await harness.connect("bob")
    _, alice = await harness.connect("alice", "claude")
    consent_request = await harness.ask("alice", "other")
    await harness.consent_service.allow(consent_request, alice.who, alice.token, READ | WRITE)
    return alice


async def test_a_person_sees_their_account_and_their_clients(people: ConsentSetup) -> None:
    alice = await two_clients(people)

    shown = await people.consent_service.account(alice.who)

    assert (shown.nextcloud_host, shown.uid, shown.display_name) == ("nextcloud.test", "alice", "Alice")
    assert not shown.needs_reauth
    assert [(one.client_id, one.name, one.scopes, one.paused) for one in shown.clients] == [
        ("claude", "Client claude", READ, False),
        ("other", "Client other", READ | WRITE, False),
    ]
    assert shown.clients[0].offered == people.provisioning.bound
    assert [(one.action, one.result) for one in shown.clients[0].recent] == [("consent", "granted")]


async def test_what_a_client_did_lately_is_shown_without_what_it_was_about(people: ConsentSetup) -> None:
    alice = await two_clients(people)
    for number in range(12):
        entry = AuditEntry(
            people.clock(), alice.who.principal, "claude", f"nc_notes_get_note{number}", "ok", "secret"
        )
        await people.database.audit.append([entry])

    shown = await people.consent_service.account(alice.who)

    assert [one.action for one in shown.clients[0].recent] == [
        f"nc_notes_get_note{n}" for n in range(11, 1, -1)
    ]
    assert "secret" not in repr(shown)


async def test_a_user_without_a_connection_sees_nothing(people: ConsentSetup) -> None:
    await people.connect("bob")
    alice = await people.browser("alice")

    shown = await people.consent_service.account(alice.who)

    assert (shown.uid, shown.display_name, shown.needs_reauth, shown.clients) == (None, "", False, ())


async def test_access_that_nextcloud_refused_is_shown(people: ConsentSetup) -> None:
    _, alice = await people.connect()
    grant = await people.grant()
    assert grant is not None
    await people.database.grants.mark_needs_reauth(grant.credential.id, version=grant.credential.version)

    assert (await people.consent_service.account(alice.who)).needs_reauth


async def test_what_a_client_may_do_is_changed_within_the_operators_limits(people: ConsentSetup) -> None:
    alice = await two_clients(people)

    await people.consent_service.set_scopes(alice.who, "other", WRITE | {"mail:send"})

    one, other = (await people.consent_service.account(alice.who)).clients
    assert one.scopes == READ
    assert other.scopes == WRITE
    stored = await people.database.grants.permissions(alice.who.principal)
    assert {one.client_id: one.scopes for one in stored} == {"claude": READ, "other": WRITE}
    assert people.changes == [None]
    assert ("permission", "changed") in await people.audit()


async def test_a_client_is_paused_and_goes_on(people: ConsentSetup) -> None:
    alice = await two_clients(people)

    await people.consent_service.pause(alice.who, "other", paused=True)
    assert [one.paused for one in (await people.consent_service.account(alice.who)).clients] == [False, True]

    await people.consent_service.pause(alice.who, "other", paused=False)
    assert [one.paused for one in (await people.consent_service.account(alice.who)).clients] == [False, False]
    assert (await people.audit())[:2] == [("permission", "goes on"), ("permission", "paused")]


async def test_a_client_is_removed(people: ConsentSetup) -> None:
    alice = await two_clients(people)

    await people.consent_service.remove(alice.who, "other")

    assert [one.client_id for one in (await people.consent_service.account(alice.who)).clients] == ["claude"]
    assert ("permission", "removed") in await people.audit()
    assert people.changes == [None]
    grant = await people.grant("alice", "claude")
    assert grant is not None
    assert grant.permission is not None


async def test_what_a_person_has_not_cannot_be_changed(people: ConsentSetup) -> None:
    alice = await people.browser("alice")
    await people.connect("bob", "claude")

    for change in (
        people.consent_service.set_scopes(alice.who, "claude", READ),
        people.consent_service.pause(alice.who, "claude", paused=True),
        people.consent_service.remove(alice.who, "claude"),
    ):
        with pytest.raises(InvalidInput):
            await change

    grant = await people.grant("bob", "claude")
    assert grant is not None
    assert grant.permission is not None
    assert not grant.permission.paused
    assert people.changes == []
    assert await people.audit("alice") == []


async def test_disconnecting_ends_one_persons_access_here_and_at_nextcloud(people: ConsentSetup) -> None:
    alice = await two_clients(people)

    assert await people.consent_service.disconnect(alice.who) is True

    assert people.provider.revoked == ["access-granted-by-alice-1"]
    assert (await people.consent_service.account(alice.who)).clients == ()
    assert await people.grant("bob") is not None
    assert people.changes == [None]
    assert ("disconnect", "done") in await people.audit()


async def test_a_disconnect_that_nextcloud_has_not_confirmed_says_so(people: ConsentSetup) -> None:
    alice = await two_clients(people)
    people.provider.unreachable = Unreachable("no connection")

    assert await people.consent_service.disconnect(alice.who) is False
    assert await people.grant("alice") is None

    people.provider.unreachable = None
    people.clock.forward(60)
    assert await people.given_back() == ["access-granted-by-alice-1"]


async def test_access_that_cannot_be_opened_can_only_be_ended_by_hand(people: ConsentSetup) -> None:
    _, alice = await people.connect()
    people.sql("UPDATE credentials SET secret = x'00'")

    assert await people.consent_service.disconnect(alice.who) is False
    assert people.provider.revoked == []


async def test_disconnecting_twice_changes_nothing_more(people: ConsentSetup) -> None:
    alice = await people.browser("alice")

    assert await people.consent_service.disconnect(alice.who) is True
    assert await people.audit() == []
    assert await people.database.audit.recent(Principal("", ""), 5) == []
