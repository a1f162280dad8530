import pytest

from nextcloud_mcp_server.auth.rate_limiter import RateLimiter, network_of
from nextcloud_mcp_server.errors import TooManyRequests
from tests.clients_fixtures import Clock


def test_one_too_many_is_told_how_long_to_wait() -> None:
    clock = Clock()
    limiter = RateLimiter(2, seconds=60, monotonic=clock.monotonic)
    limiter.count("a")
    clock.go(seconds=30)
    limiter.check("a")
    limiter.count("a")

    with pytest.raises(TooManyRequests, match="30 seconds") as caught:
        limiter.check("a")

    assert caught.value.retry_after_seconds == 30
    limiter.check("b")
    clock.go(seconds=30)
    limiter.check("a")


def test_keys_without_end_are_not_kept() -> None:
    limiter = RateLimiter(1, seconds=60, monotonic=Clock().monotonic, max_keys=2)
    for key in "abc":
        limiter.count(key)

    limiter.check("a")
    for key in "bc":
        with pytest.raises(TooManyRequests):
            limiter.check(key)


def test_an_ipv6_network_counts_as_one() -> None:
    assert network_of("2001:db8:1:2:3::4") == network_of("2001:db8:1:2:ffff::") == "2001:db8:1:2::"
    assert network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("unknown") == "unknown"
