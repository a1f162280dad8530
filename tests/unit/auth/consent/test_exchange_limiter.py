import pytest

from nextcloud_mcp_server.auth.consent import exchange_limiter as module
from nextcloud_mcp_server.auth.consent.exchange_limiter import ExchangeLimiter
from nextcloud_mcp_server.errors import Throttled
from tests.oauth_fixtures import Office, Replica, caller

ALICE = caller("alice").principal
BOB = caller("bob").principal


@pytest.fixture
def exchange_limiter(office: Office, replica: Replica) -> ExchangeLimiter:
    return ExchangeLimiter(replica.database, clock=office.harness.clock)


async def test_a_person_may_fail_twice_and_then_waits_half_an_hour(
    office: Office, exchange_limiter: ExchangeLimiter
) -> None:
    for sign_in in ("one", "another"):
        await exchange_limiter.check(ALICE, sign_in)
        await exchange_limiter.failed(ALICE, sign_in)

    with pytest.raises(Throttled, match="half an hour") as caught:
        await exchange_limiter.check(ALICE, "a third")
    await exchange_limiter.check(BOB, "his own")
    office.harness.clock.forward(module.WINDOW.total_seconds() + 1)
    await exchange_limiter.check(ALICE, "a third")

    assert caught.value.retry_after_seconds == 1800


async def test_people_who_take_turns_at_one_browser_share_its_failures(
    exchange_limiter: ExchangeLimiter,
) -> None:
    await exchange_limiter.failed(ALICE, "shared")
    await exchange_limiter.failed(BOB, "shared")

    with pytest.raises(Throttled):
        await exchange_limiter.check(caller("carol").principal, "shared")


async def test_three_failures_of_strangers_pause_every_stranger(exchange_limiter: ExchangeLimiter) -> None:
    for number in range(module.USUAL.of_strangers):
        await exchange_limiter.failed(caller(f"person-{number}").principal, f"browser-{number}")

    with pytest.raises(Throttled, match="all other users"):
        await exchange_limiter.check(ALICE, "her own")


async def test_old_failures_are_forgotten(
    office: Office, replica: Replica, exchange_limiter: ExchangeLimiter
) -> None:
    await exchange_limiter.failed(ALICE, "one")
    first = office.harness.clock()
    office.harness.clock.forward(module.WINDOW.total_seconds() + 1)

    await exchange_limiter.failed(BOB, "two")

    assert await replica.database.failed_exchanges.count(since=first) == 1
