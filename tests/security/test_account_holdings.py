"""Who holds a Nextcloud account here, and who must give way, so that its owner is not locked out of it.

An attacker who made Alice grant access with `ACCOUNT_MAPPING=confirm` holds her account, and so does a principal of an
identity provider that this server was moved away from.
"""

import contextlib

import pytest

from nextcloud_mcp_server.errors import AccountTaken, ElicitationUnknown, WrongAccount
from nextcloud_mcp_server.nextcloud.picture import Picture
from nextcloud_mcp_server.storage.records import Holding, Principal
from tests.consent_fixtures import Browser, ConsentSetup
from tests.issuer_fake import ISSUER

FORMER = "https://former.test"


async def connect(harness: ConsentSetup, name: str, uid: str) -> Browser:
    """Walk through one consent as a user whose claim names `uid`."""
    consent_request = await harness.ask(name)
    browser = await harness.browser(name, preferred_username=uid)
    url = await harness.allow(consent_request, browser)
    done = await harness.consent_service.finish_grant(
        harness.provider.confirm(url, uid), browser.who, browser.token
    )
    if done.pending_grant is not None:
        await harness.consent_service.confirm(consent_request, browser.who, browser.token, mine=True)
    harness.clock.forward(1)
    return browser


async def holders(harness: ConsentSetup, uid: str) -> list[str]:
    return [each.principal.subject for each in await harness.database.accounts.all() if each.uid == uid]


def confirmed_only(harness: ConsentSetup) -> None:
    """Let what is stored be as it is after the operator changed from `confirm` to a claim."""
    harness.sql("UPDATE accounts SET mapped = 0")


def at_former_issuer(harness: ConsentSetup, name: str) -> None:
    """Let what one principal has be from before the operator moved to another identity provider."""
    harness.sql("PRAGMA foreign_keys = OFF")
    for table in ("accounts", "credentials", "permissions"):
        harness.sql(f"UPDATE {table} SET issuer = '{FORMER}' WHERE subject = '{name}'")


async def test_a_user_that_only_claimed_an_account_gives_way_to_the_one_that_the_claim_names(
    mapped: ConsentSetup,
) -> None:
    mallory = await connect(mapped, "mallory", "alice")
    confirmed_only(mapped)

    await connect(mapped, "alice", "alice")

    assert await holders(mapped, "alice") == ["alice"]
    assert await mapped.grant("alice") is not None
    assert await mapped.grant("mallory") is None
    assert await mapped.given_back() == ["access-granted-by-alice-0"]
    assert ("account", "ended: another person's now") in await mapped.audit("mallory")
    assert await mapped.consent_service.signed_in(mallory.token) is None


async def test_a_principal_of_a_former_issuer_gives_way_to_whom_the_claim_names(mapped: ConsentSetup) -> None:
    await connect(mapped, "former-alice", "alice")
    at_former_issuer(mapped, "former-alice")

    await connect(mapped, "alice", "alice")

    assert await holders(mapped, "alice") == ["alice"]
    assert await mapped.grant("alice") is not None


async def test_of_two_whom_the_claim_names_the_first_stays(mapped: ConsentSetup) -> None:
    await connect(mapped, "alice", "alice")

    with pytest.raises(AccountTaken, match="ask the operator of this server to release it"):
        await connect(mapped, "mallory", "alice")

    assert await holders(mapped, "alice") == ["alice"]
    assert await mapped.grant("alice") is not None
    assert await mapped.given_back() == ["access-granted-by-alice-1"]


@pytest.mark.parametrize("of_former_issuer", [False, True])
@pytest.mark.parametrize("by_claim", [False, True])
async def test_no_user_gives_way_to_one_that_only_claims_the_account(
    people: ConsentSetup, *, by_claim: bool, of_former_issuer: bool
) -> None:
    await connect(people, "alice", "alice")
    if by_claim:
        people.sql("UPDATE accounts SET mapped = 1")
    if of_former_issuer:
        at_former_issuer(people, "alice")

    with pytest.raises(AccountTaken):
        await connect(people, "mallory", "alice")

    assert await holders(people, "alice") == ["alice"]
    assert await people.grant("mallory") is None
    assert await people.given_back() == ["access-granted-by-alice-1"]


async def test_a_connection_that_the_claim_has_named_once_is_not_forgotten_to_be_so(
    people: ConsentSetup,
) -> None:
    await connect(people, "alice", "alice")
    people.sql("UPDATE accounts SET mapped = 1")
    people.sql("UPDATE credentials SET needs_reauth = 1")

    await connect(people, "alice", "alice")

    (holding,) = await people.database.accounts.all()
    assert holding.mapped


async def test_disconnecting_lets_another_person_have_the_account(people: ConsentSetup) -> None:
    mallory = await connect(people, "mallory", "alice")
    await people.consent_service.disconnect(mallory.who)

    await connect(people, "alice", "alice")

    assert await holders(people, "alice") == ["alice"]
    assert await people.grant("alice") is not None


async def test_the_operator_releases_an_account_and_its_owner_connects_it(people: ConsentSetup) -> None:
    mallory = await connect(people, "mallory", "alice")
    (holding,) = await people.database.accounts.all()

    released = await people.database.accounts.release(holding)
    again = await people.database.accounts.release(holding)
    await connect(people, "alice", "alice")

    assert (released, again) == (True, False)
    assert holding == Holding(
        Principal(ISSUER, "mallory"), holding.nextcloud_url, "alice", False, True, holding.created_at
    )
    assert await people.given_back() == ["access-granted-by-alice-0"]
    assert await people.grant("mallory") is None
    assert await people.consent_service.signed_in(mallory.token) is None
    assert ("account", "released by the operator") in await people.audit("mallory")
    assert await holders(people, "alice") == ["alice"]


async def test_a_released_account_is_not_connected_by_a_user_whose_claim_names_another(
    mapped: ConsentSetup,
) -> None:
    await connect(mapped, "alice", "alice")
    (holding,) = await mapped.database.accounts.all()
    await mapped.database.accounts.release(holding)
    consent_request, mallory = (
        await mapped.ask("mallory"),
        await mapped.browser("mallory", preferred_username="mallory"),
    )
    url = await mapped.allow(consent_request, mallory)

    with pytest.raises(WrongAccount):
        await mapped.consent_service.finish_grant(
            mapped.provider.confirm(url, "alice"), mallory.who, mallory.token
        )
    taken = await holders(mapped, "alice")
    await connect(mapped, "alice", "alice")

    assert taken == []
    assert await mapped.grant("mallory") is None
    assert await holders(mapped, "alice") == ["alice"]


async def test_what_waits_in_another_browser_of_its_former_holder_takes_no_released_account(
    people: ConsentSetup,
) -> None:
    consent_request, waiting = await people.ask("mallory"), await people.browser("mallory")
    url = await people.allow(consent_request, waiting)
    await people.consent_service.finish_grant(
        people.provider.confirm(url, "alice"), waiting.who, waiting.token
    )
    await connect(people, "mallory", "alice")
    (holding,) = await people.database.accounts.all()

    await people.database.accounts.release(holding)
    with contextlib.suppress(ElicitationUnknown):
        await people.consent_service.confirm(consent_request, waiting.who, waiting.token, mine=True)

    assert await holders(people, "alice") == []
    assert await people.grant("mallory") is None
    assert await people.consent_service.signed_in(waiting.token) is None


async def test_an_account_that_another_person_holds_by_now_is_not_released_in_the_place_of_the_former_one(
    people: ConsentSetup,
) -> None:
    await connect(people, "mallory", "alice")
    (former,) = await people.database.accounts.all()
    await people.database.accounts.release(former)
    await connect(people, "alice", "alice")

    released = await people.database.accounts.release(former)

    assert not released
    assert await people.grant("alice") is not None


async def test_releasing_an_account_leaves_all_others_alone(people: ConsentSetup) -> None:
    await connect(people, "alice", "alice")
    await connect(people, "bob", "bob")
    held = await people.database.accounts.all()

    await people.database.accounts.release(held[1])

    assert [each.uid for each in await people.database.accounts.all()] == ["alice"]
    assert await people.grant("alice") is not None
    assert await people.grant("bob") is None


async def test_the_picture_of_what_waits_is_that_of_the_account_that_was_given(people: ConsentSetup) -> None:
    consent_request = await people.ask("alice")
    browser = await people.browser("alice")
    url = await people.allow(consent_request, browser)
    people.provider.pictures["bob"] = Picture("image/png", b"bob")
    done = await people.consent_service.finish_grant(
        people.provider.confirm(url, "bob"), browser.who, browser.token
    )
    assert done.pending_grant is not None

    assert await people.consent_service.picture(done.pending_grant) == Picture("image/png", b"bob")
