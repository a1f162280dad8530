"""Attack: hide from a user that a token came a second time, by calls that push its entry out of sight."""

from datetime import timedelta

from nextcloud_mcp_server.storage.records import CODE_USED, TOKEN_USED, AuditEntry
from tests.consent_fixtures import ConsentSetup

CALLS = 400


async def test_a_reused_token_stays_on_the_account_page_however_often_clients_call(
    people: ConsentSetup,
) -> None:
    _, alice = await people.connect("alice", "claude")
    _, bob = await people.connect("bob", "claude")
    who = alice.who.principal
    for result in (CODE_USED, TOKEN_USED):
        await people.database.audit.append([AuditEntry(people.clock(), who, "claude", "tokens", result)])
    calls = [AuditEntry(people.clock(), who, "claude", "nc_notes_get_note", "ok") for _ in range(CALLS)]
    await people.database.audit.append(calls)

    shown = await people.consent_service.account(alice.who)

    assert [one.client_name for one in shown.alerts] == ["Client claude", "Client claude"]
    assert (await people.consent_service.account(bob.who)).alerts == ()


async def test_a_reused_token_is_told_for_a_month(people: ConsentSetup) -> None:
    _, alice = await people.connect("alice", "claude")
    long_ago = people.clock() - timedelta(days=31)
    await people.database.audit.append(
        [AuditEntry(long_ago, alice.who.principal, "claude", "tokens", TOKEN_USED)]
    )

    assert (await people.consent_service.account(alice.who)).alerts == ()
