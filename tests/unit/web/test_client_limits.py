import pytest

from nextcloud_mcp_server.errors import OAuthRefusal, StorageError, TooManyRequests
from nextcloud_mcp_server.web.client_limits import ClientLimits
from nextcloud_mcp_server.web.limits import Limits, Rates

ADDRESS, OTHER_ADDRESS = "203.0.113.9", "203.0.113.10"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(clock: Clock) -> ClientLimits:
    return ClientLimits(Limits(Rates(client=2), monotonic=clock), most=2)


async def fail(limits: ClientLimits, client_id: str | None = None, *, address: str = ADDRESS) -> None:
    with pytest.raises(OAuthRefusal):
        async with limits.attempt(address, client_id):
            raise OAuthRefusal("invalid_grant", "No.")


async def work(limits: ClientLimits, client_id: str | None = None, *, address: str = ADDRESS) -> None:
    async with limits.attempt(address, client_id):
        pass


async def is_turned_away(
    limits: ClientLimits, client_id: str | None = None, *, address: str = ADDRESS
) -> bool:
    try:
        await work(limits, client_id, address=address)
    except TooManyRequests:
        return True
    return False


async def test_an_address_that_is_refused_too_often_waits_for_the_rest_of_the_minute(
    limits: ClientLimits, clock: Clock
) -> None:
    for _ in range(2):
        await fail(limits, "mcp-a")

    assert await is_turned_away(limits, "mcp-b")
    assert await is_turned_away(limits)
    assert not await is_turned_away(limits, address=OTHER_ADDRESS)
    clock.now += 61
    assert not await is_turned_away(limits, "mcp-b")


async def test_what_ends_well_or_in_our_own_trouble_is_not_counted(limits: ClientLimits) -> None:
    for _ in range(9):
        await work(limits)
        with pytest.raises(StorageError):
            async with limits.attempt(ADDRESS, "mcp-a"):
                raise StorageError("busy")

    assert not await is_turned_away(limits)


async def test_a_client_that_worked_has_a_count_of_its_own(limits: ClientLimits) -> None:
    await work(limits, "mcp-a")
    for _ in range(2):
        await fail(limits, "mcp-b")

    assert await is_turned_away(limits, "mcp-b")
    assert not await is_turned_away(limits, "mcp-a")
    for _ in range(2):
        await fail(limits, "mcp-a")
    assert await is_turned_away(limits, "mcp-a")


async def test_a_client_is_known_only_where_it_worked(limits: ClientLimits) -> None:
    await work(limits, "mcp-a", address=OTHER_ADDRESS)
    for _ in range(2):
        await fail(limits)

    assert await is_turned_away(limits, "mcp-a")
    assert not await is_turned_away(limits, "mcp-a", address=OTHER_ADDRESS)


async def test_what_proves_nothing_counts_however_it_ends(limits: ClientLimits) -> None:
    for _ in range(2):
        async with limits.attempt(ADDRESS, "mcp-a", always_counts=True):
            pass

    assert await is_turned_away(limits, "mcp-a")


async def test_of_the_clients_that_worked_only_so_many_are_known(limits: ClientLimits) -> None:
    for client_id in ("mcp-a", "mcp-b", "mcp-a", "mcp-c"):
        await work(limits, client_id)
    for _ in range(2):
        await fail(limits)

    assert await is_turned_away(limits, "mcp-b")
    assert not await is_turned_away(limits, "mcp-a")
    assert not await is_turned_away(limits, "mcp-c")


async def test_refusals_at_once_are_all_told_why(limits: ClientLimits) -> None:
    async def fail_beside_others() -> None:
        async with limits.attempt(ADDRESS):
            for _ in range(2):
                await fail(limits)
            raise OAuthRefusal("invalid_grant", "the third")

    with pytest.raises(OAuthRefusal, match="the third"):
        await fail_beside_others()

    assert await is_turned_away(limits)


async def test_a_whole_ipv6_network_is_one_address(limits: ClientLimits) -> None:
    for host in (1, 2):
        await fail(limits, address=f"2001:db8::{host}")

    assert await is_turned_away(limits, address="2001:db8::ffff")
    assert not await is_turned_away(limits, address="2001:db8:0:1::1")
