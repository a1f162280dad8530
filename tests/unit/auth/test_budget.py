import pytest

from nextcloud_mcp_server.auth import budget as module
from nextcloud_mcp_server.auth.budget import RedemptionBudget
from nextcloud_mcp_server.errors import Throttled
from tests.oauth_stage import Office, Replica, caller

ALICE = caller("alice").principal
BOB = caller("bob").principal


@pytest.fixture
def budget(office: Office, replica: Replica) -> RedemptionBudget:
    return RedemptionBudget(replica.database, clock=office.stage.clock)


async def test_a_person_may_fail_twice_and_then_waits_half_an_hour(
    office: Office, budget: RedemptionBudget
) -> None:
    for sign_in in ("one", "another"):
        await budget.check(ALICE, sign_in)
        await budget.failed(ALICE, sign_in)

    with pytest.raises(Throttled, match="half an hour") as caught:
        await budget.check(ALICE, "a third")
    await budget.check(BOB, "his own")
    office.stage.clock.forward(module.WINDOW.total_seconds() + 1)
    await budget.check(ALICE, "a third")

    assert caught.value.retry_after_seconds == 1800


async def test_people_who_take_turns_at_one_browser_share_its_failures(budget: RedemptionBudget) -> None:
    await budget.failed(ALICE, "shared")
    await budget.failed(BOB, "shared")

    with pytest.raises(Throttled):
        await budget.check(caller("carol").principal, "shared")


async def test_three_failures_of_anybody_pause_every_stranger(budget: RedemptionBudget) -> None:
    for number in range(module.USUAL.of_strangers):
        await budget.failed(caller(f"person-{number}").principal, f"browser-{number}")

    with pytest.raises(Throttled, match="everybody else"):
        await budget.check(ALICE, "her own")


async def test_old_failures_are_forgotten(office: Office, replica: Replica, budget: RedemptionBudget) -> None:
    await budget.failed(ALICE, "one")
    first = office.stage.clock()
    office.stage.clock.forward(module.WINDOW.total_seconds() + 1)

    await budget.failed(BOB, "two")

    assert await replica.database.redemptions.count(since=first) == 1
